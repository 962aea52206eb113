"""The dashboard: server-rendered pages for account people and operators."""
