"""The report on a folder of trained systems."""
