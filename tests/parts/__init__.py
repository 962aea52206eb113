"""Real parts for tests: PostgreSQL, S3, a browser. Each starts when first asked for, on 127.0.0.1 only."""
