"""Settings > Security: password, second factor, passkeys, sessions."""
