"""Where files live: local disk or an object store."""
