"""What systems wrote: reading it, and comparing it."""
