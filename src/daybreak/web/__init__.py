"""HTTP layer, the only package that imports the web framework."""
