"""The pages of the commands explore and serve, which run in a browser."""
