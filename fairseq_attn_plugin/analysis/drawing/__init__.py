"""Pictures by matplotlib: heatmaps, curves, bars, histograms, documents."""
