"""Settings > Security: password, second factor, sessions."""
