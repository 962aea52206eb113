"""Accounts, seats and grants in bulk: file import and platform sync."""
