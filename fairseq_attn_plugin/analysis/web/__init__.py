"""Pages that run in a browser: explore and serve."""
