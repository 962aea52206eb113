"""HTTP API endpoints, one module per group."""
