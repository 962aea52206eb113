"""Settings > API tokens: list, create, revoke."""
