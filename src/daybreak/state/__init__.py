"""The state database: seats, sessions, tokens, manifests and the audit trail, on SQLite or PostgreSQL."""
