"""Domain types: identities, snapshots, audit events and errors."""
