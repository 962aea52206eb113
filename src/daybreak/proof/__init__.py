"""Proof that an export is complete: every row of the source is in a file, or excluded by a named rule."""
