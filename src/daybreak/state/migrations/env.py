"""Run by Alembic: migrates on the connection it is given, within that connection's transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
