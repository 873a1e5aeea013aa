"""The pictures that docs/pictures.py draws. Each function draws one file."""
