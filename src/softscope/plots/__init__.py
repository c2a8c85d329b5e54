"""One function a picture: arrays in, a matplotlib `Figure` out. The paper's figures and the report use the same."""
