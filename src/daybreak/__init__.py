"""Daybreak: each account's data, as files, fresh by 04:00 UTC, in the right hands only."""

__version__ = "0.1.0"
