"""S3, read only: each account is a bucket with its files."""
