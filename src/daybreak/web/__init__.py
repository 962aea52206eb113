"""The HTTP floor: the only place that imports the web framework."""
