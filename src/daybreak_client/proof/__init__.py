"""Proof that files are those that the service published: signed statements, trust files, and what was seen before."""
