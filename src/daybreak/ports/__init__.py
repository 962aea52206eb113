"""Ports: Protocols that adapters implement and services use."""
