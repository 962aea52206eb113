"""Settings > Webhooks: list, create, test, rotate, disable, remove, and the log of deliveries."""
