"""The nine resources, the thirteen source tables and the models between them: the only copy."""
