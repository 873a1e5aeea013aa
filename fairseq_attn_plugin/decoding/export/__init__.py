"""Export to ONNX, and the translator that an exported folder has."""
