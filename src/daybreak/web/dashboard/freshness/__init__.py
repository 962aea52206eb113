"""Freshness panel, shown on account and operator pages."""
