"""Second factor: the code asked for at sign-in, its setup, and recovery codes."""
