"""Tables of the processes of the service, of faults, and of requests between processes."""

import sqlalchemy as sa

from daybreak.state.columns import KEY, Instant, Strings
from daybreak.state.schema import metadata

password_resets = sa.Table(
    "password_resets",
    metadata,
    sa.Column("seat_id", KEY, sa.ForeignKey("seats.seat_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("type", KEY, primary_key=True),
    sa.Column("digest", KEY, nullable=False, unique=True),
    sa.Column("email", sa.Text, nullable=False),
    sa.Column("requested_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
)

run_requests = sa.Table(
    "run_requests",
    metadata,
    sa.Column("request_id", KEY, primary_key=True),
    sa.Column("requested_at", Instant, nullable=False),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.Column("day", sa.Date),
    sa.Column("taken_at", Instant),
)

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("node_id", KEY, primary_key=True),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("seen_at", Instant, nullable=False, index=True),
    sa.Column("roles", Strings, nullable=False),
    # NULL for nodes of earlier versions.
    sa.Column("keyring", sa.Text),
)

# Tasks that failed and have not succeeded since.
task_faults = sa.Table(
    "task_faults",
    metadata,
    sa.Column("task", KEY, primary_key=True),
    sa.Column("host", KEY, primary_key=True),
    sa.Column("failures", sa.BigInteger, nullable=False),
    sa.Column("failed_at", Instant, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
)

# One row per kept snapshot with faults. `by_reading`: found by reading the files, not by their sizes alone.
file_faults = sa.Table(
    "file_faults",
    metadata,
    sa.Column("snapshot_id", KEY, primary_key=True),
    sa.Column("files", sa.BigInteger, nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Column("by_reading", sa.Boolean, nullable=False),
)

revoked_keys = sa.Table(
    "revoked_keys", metadata, sa.Column("kid", KEY, primary_key=True), sa.Column("revoked_at", Instant, nullable=False)
)
