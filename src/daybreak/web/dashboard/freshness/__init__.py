"""Freshness: the panel of account and operator pages, the operator's page, and the public status page."""
