"""What one does with attention afterwards.  Nothing else in the package imports this one."""
