"""The command `daybreak`: sign in, fetch files, and keep a database in step."""

from daybreak_client.command.application import main, run

__all__ = ["main", "run"]
