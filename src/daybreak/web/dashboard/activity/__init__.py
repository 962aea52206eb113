"""Activity: the audit trail of one account, as a page and as files."""
