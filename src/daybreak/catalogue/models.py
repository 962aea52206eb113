"""SQL models: one SELECT per resource over the source tables.

The SQL in `sql/` has the same meaning in DuckDB and PostgreSQL, and sqlglot can translate it to Spark SQL. An
operator's own model runs unchanged, in the dialect of the source's engine. `:as_of` is the snapshot's instant.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources as package_files
from pathlib import Path

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable
from daybreak.domain.errors import OperatorError

_AS_OF = re.compile(r"(?<![:\w]):as_of\b")


AGGREGATING = frozenset(
    {"campaign_links", "campaigns", "communities", "member_communities", "outbound_message_type_usage"}
)
"""The shipped models that aggregate: their results are small and expensive to compute."""


ACCOUNT_COLUMNS = ("leader_id", "rule", "rows")
"""Columns of a query in `RESOURCE.account.sql`. `rule` is NULL for exported rows."""
_ACCOUNT = ".account"


@dataclass(frozen=True, slots=True)
class Model:
    """One model.

    `sql` is a SELECT that may contain `:as_of`. `origin` names its file. A `shipped` model runs on every engine,
    another one on that of the source. `aggregates` is whether the SELECT aggregates, None if that is not declared.
    `account` is the operator's query of row accounting, with the columns of ACCOUNT_COLUMNS.
    """

    resource: str
    sql: str
    origin: str
    shipped: bool = False
    aggregates: bool | None = None
    account: "Model | None" = None

    def at(self, as_of: datetime) -> str:
        """Return the SELECT with the instant as a timestamp literal in UTC."""
        return _AS_OF.sub(as_of_literal(as_of), self.sql)


def as_of_literal(as_of: datetime) -> str:
    """Return `TIMESTAMP '2026-11-20 04:00:00.000000'`, in UTC. Raises ValueError for a time without a zone."""
    if as_of.tzinfo is None:
        raise ValueError("as_of needs a time zone")
    return f"TIMESTAMP '{as_of.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"


def required_tables(models: Mapping[str, Model]) -> tuple[SourceTable, ...]:
    """Return the source tables that must exist: `leaders`, and those that shipped models read."""
    shipped = "\n".join(model.sql for model in models.values() if model.shipped)
    read = set(re.findall(r"\b(?:FROM|JOIN) (\w+)", shipped)) | {"leaders"}
    return tuple(table for table in SOURCE_TABLES if table.name in read)


def shipped_models(models: Mapping[str, Model]) -> frozenset[str]:
    """Return the resources of the shipped models."""
    return frozenset(name for name, model in models.items() if model.shipped)


def load_models(models_dir: Path | None = None) -> Mapping[str, Model]:
    """Load the nine models by resource name. A file `RESOURCE.sql` in `models_dir` replaces the shipped one, and
    `RESOURCE.account.sql` accounts for its rows.

    Raises OperatorError when the folder cannot be listed, or has a file for an unknown resource or one that cannot be
    read: a model that is not found would publish what it excludes.
    """
    folder = package_files.files("daybreak.catalogue") / "sql"
    models = {
        name: Model(
            name,
            (folder / f"{name}.sql").read_text("utf-8"),
            f"daybreak's {name}.sql",
            shipped=True,
            aggregates=name in AGGREGATING,
        )
        for name in RESOURCE_NAMES
    }
    if models_dir is None:
        return models
    if not models_dir.is_dir():
        raise OperatorError(f"snapshot.models_dir: {models_dir} is not a folder.")
    try:
        own_files = [path for path in models_dir.iterdir() if path.suffix.lower() == ".sql"]
    except OSError as error:
        raise OperatorError(f"snapshot.models_dir: {models_dir} cannot be listed: {error.strerror}.") from error
    # Sorted by resource, a model before its account.
    for path in sorted(own_files, key=lambda path: (path.stem.removesuffix(_ACCOUNT), path.stem)):
        resource = path.stem.removesuffix(_ACCOUNT)
        if resource not in models or path.suffix != ".sql":
            raise OperatorError(
                f"snapshot.models_dir: {path.name} matches no resource. Name it RESOURCE.sql, after one of "
                f"{', '.join(RESOURCE_NAMES)}."
            )
        own = Model(resource, _read_select(path), str(path))
        if path.stem == resource:
            models[resource] = own
        elif models[resource].shipped:
            raise OperatorError(f"snapshot.models_dir: {path.name} accounts for {resource}.sql, which is missing.")
        else:
            models[resource] = replace(models[resource], account=own)
    return models


def _read_select(path: Path) -> str:
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise OperatorError(f"snapshot.models_dir: {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise OperatorError(f"snapshot.models_dir: {path} is not UTF-8 text. Save it as UTF-8.") from error
    # The line break ends a trailing comment, so that the SELECT can be embedded in another.
    return text.strip().rstrip(";") + "\n"
