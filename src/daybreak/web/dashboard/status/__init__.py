"""The public status page, and the operator's page about freshness."""
