"""PostgreSQL row source."""
