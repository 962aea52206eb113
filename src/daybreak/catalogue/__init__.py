"""The nine resources, the thirteen source tables, and the SQL models between them."""
