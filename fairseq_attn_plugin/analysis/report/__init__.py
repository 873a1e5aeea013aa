"""One report about a folder of trained systems."""
