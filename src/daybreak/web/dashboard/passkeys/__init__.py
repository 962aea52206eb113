"""Settings > Security: passkeys."""
