"""Pictures by matplotlib: heatmaps, bars; documents as a page."""
