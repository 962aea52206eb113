"""What consumers of Daybreak install: log in, switch accounts, fetch the files that changed."""

__version__ = "0.1.0"
