"""One function a picture: arrays in, a matplotlib `Figure` out; for web pages (`svg`, `diagnosis`, `final_layer`), SVG."""
