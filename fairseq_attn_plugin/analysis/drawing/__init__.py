"""Pictures by matplotlib: heatmaps; documents as a page."""
