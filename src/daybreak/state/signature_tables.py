"""Tables of signed statements and trust files."""

import sqlalchemy as sa

from daybreak.domain.signing import StatementPack
from daybreak.state.columns import KEY, Instant, JsonOf, Strings
from daybreak.state.schema import metadata

# Statements of the accounts of a run, in packs.
snapshot_statements = sa.Table(
    "snapshot_statements",
    metadata,
    sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("chain_id", KEY, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("signed_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("packs", JsonOf(tuple[StatementPack, ...]), nullable=False),
)

# Statements that replace others after an erasure, one row for each later revision.
statement_revisions = sa.Table(
    "statement_revisions",
    metadata,
    sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("client_id", KEY, primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("erasure_id", KEY, nullable=False),
    sa.Column("public_key", sa.Text, nullable=False),
    sa.Column("pack", JsonOf(StatementPack), nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
)

trust_files = sa.Table(
    "trust_files",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("service", sa.Text, nullable=False),
    sa.Column("cas", Strings, nullable=False),
    sa.Column("recovery", sa.Text, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
)

# Public keys of publications and CAs. No row is ever deleted.
revoked_signers = sa.Table(
    "revoked_signers",
    metadata,
    sa.Column("public_key", KEY, primary_key=True),
    sa.Column("revoked_at", Instant, nullable=False),
)

# Signed receipts of erasures, one per account.
erasure_receipts = sa.Table(
    "erasure_receipts",
    metadata,
    sa.Column("erasure_id", KEY, primary_key=True),
    sa.Column("client_id", KEY, primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
)
