"""The Delta Sharing protocol, version 1."""
