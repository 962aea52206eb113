"""Reference implementation of the nine resources in plain Python, without SQL, for comparison with exported files."""
