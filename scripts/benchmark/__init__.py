"""The sections of ``scripts/bench.py``: what each one measures, the targets, and the report."""
