"""Password prompt, shown before a secret is created or changed."""
