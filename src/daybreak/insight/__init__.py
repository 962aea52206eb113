"""Insight: figures of an account, computed from every row of its published files."""
