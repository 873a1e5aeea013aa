"""The frame, the tables and the assets of HTML pages."""
