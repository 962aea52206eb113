"""Credentials: passwords, tokens, signed links, one-time codes and the keyring. Uses no database and no network."""
