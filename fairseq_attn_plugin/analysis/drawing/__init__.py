"""Pictures: heatmaps, curves, bars, documents."""
