"""Insight: charts and figures computed from an account's published files."""
