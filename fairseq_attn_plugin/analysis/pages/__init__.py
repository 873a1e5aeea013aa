"""The pages that the commands write: templates, style sheets, scripts, and the frame around them."""
