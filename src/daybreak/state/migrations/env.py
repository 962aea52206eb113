"""Alembic environment: migrates on the connection of the caller, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
