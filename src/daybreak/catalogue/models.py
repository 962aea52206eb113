"""The SQL models: one SELECT per resource over the source tables.

The files in `sql/` are written in what DuckDB and PostgreSQL both take, to mean the same, and in no more of it than
Spark SQL can be given by transpiling. `:as_of` stands for the snapshot's instant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources as package_files
from pathlib import Path

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import OperatorError, SourceError

_AS_OF = re.compile(r"(?<![:\w]):as_of\b")


@dataclass(frozen=True, slots=True)
class Model:
    """One model: `sql` is a SELECT with `:as_of` in it, in DuckDB's dialect; `origin` says which file it came from.
    PostgreSQL takes one that `is_portable` as it stands.
    """

    resource: str
    sql: str
    origin: str
    is_portable: bool = False

    def at(self, as_of: datetime) -> str:
        """The SELECT with the instant in place, as a timestamp literal in UTC."""
        return _AS_OF.sub(as_of_literal(as_of), self.sql)


def as_of_literal(as_of: datetime) -> str:
    """`TIMESTAMP '2026-11-20 04:00:00.000000'`, UTC. Raises ValueError on a naive time."""
    if as_of.tzinfo is None:
        raise ValueError("as_of needs a time zone")
    return f"TIMESTAMP '{as_of.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"


def load_models(models_dir: Path | None = None) -> Mapping[str, Model]:
    """All nine models by resource name; files `<resource>.sql` of `models_dir` replace single ones.

    Raises OperatorError when the folder is missing, or holds SQL for an unknown resource or what cannot be read.
    """
    folder = package_files.files("daybreak.catalogue") / "sql"
    models = {
        name: Model(name, (folder / f"{name}.sql").read_text("utf-8"), f"daybreak's {name}.sql", is_portable=True)
        for name in RESOURCE_NAMES
    }
    if models_dir is None:
        return models
    if not models_dir.is_dir():
        raise OperatorError(f"snapshot.models_dir: {models_dir} is not a folder.")
    for path in sorted(models_dir.glob("*.sql")):
        if path.stem not in models:
            raise OperatorError(
                f"snapshot.models_dir: {path.name} replaces nothing; the models are {', '.join(RESOURCE_NAMES)}."
            )
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(
                f"snapshot.models_dir: {path} cannot be read: {error}. Give it as a text file in UTF-8."
            ) from error
        # A comment at the end ends there, whatever the SELECT is put into.
        sql = text.strip().rstrip(";") + "\n"
        models[path.stem] = Model(path.stem, sql, str(path))
    return models


REPEATED_TERMS = "SELECT term_id FROM terms GROUP BY term_id HAVING count(*) > 1 ORDER BY term_id LIMIT 1"
"""A query for `check_terms`."""


def check_terms(repeated: tuple[object, ...] | None) -> None:
    """Takes the row of REPEATED_TERMS, None when there is none; raises SourceError that names the terms."""
    if repeated is not None:
        raise SourceError(
            f"Table terms lists the terms {repeated[0]} twice: each acceptance of them would stand in the files twice."
        )


def check_leader_chain(pairs: Iterable[tuple[str, str | None]]) -> None:
    """Takes (leader_id, parent_leader_id) of all Leaders; raises SourceError when a Leader is
    listed twice or the parents go round in a circle, naming the Leaders."""
    parent_of: dict[str, str | None] = {}
    for leader_id, parent in pairs:
        if leader_id in parent_of:
            raise SourceError(f"Table leaders lists the Leader {leader_id} twice.")
        parent_of[leader_id] = parent
    sound = {leader_id for leader_id, parent in parent_of.items() if parent is None}
    for start in parent_of:
        if start in sound:
            continue
        path: list[str] = []
        on_path: set[str] = set()
        leader: str | None = start
        while leader is not None and leader not in sound:
            if leader in on_path:
                circle = [*path[path.index(leader) :], leader]
                raise SourceError(
                    "Table leaders: parent_leader_id goes round in a circle: " + " -> ".join(circle) + "."
                )
            path.append(leader)
            on_path.add(leader)
            leader = parent_of.get(leader)
        sound.update(path)
