"""Public status page: publication history without account data."""
