"""The state database: seats, sessions, tokens, manifests and the trail, on SQLite or PostgreSQL."""
