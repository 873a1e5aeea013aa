"""Pictures by matplotlib: heatmaps, bars, histograms, documents."""
