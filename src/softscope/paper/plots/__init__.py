"""One function a picture: arrays in, a matplotlib `Figure` out, or SVG for a page (`diagnosis`, `final_layer`)."""
