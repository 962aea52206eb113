"""Operator pages: runs, freshness, accounts and seats, nodes."""
