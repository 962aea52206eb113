"""Unsubscribe links in mails."""
