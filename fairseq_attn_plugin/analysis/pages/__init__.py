"""The pages of the commands: templates, style sheets, scripts, and the frame around them."""
