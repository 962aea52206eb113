"""The seams of the service: Protocols that adapters fill and services use."""
