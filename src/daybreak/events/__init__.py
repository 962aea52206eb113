"""Delivery of events from the outbox: webhooks and mail."""
