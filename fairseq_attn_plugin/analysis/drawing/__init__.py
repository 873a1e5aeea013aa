"""Pictures by matplotlib: heatmaps, bars, histograms; documents as a page."""
