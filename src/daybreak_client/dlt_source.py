"""Source for dlt, the data load tool (https://dlthub.com): the extra `dlt`.

One run brings all tables to one snapshot. A table that was loaded before gets only the changed rows: the rows of each
changed key are deleted, and its new rows inserted. Otherwise the table is loaded in full: the rows of the account are
deleted and the published ones inserted. Both are merges of dlt, so that several accounts can share a dataset.
"""

import gzip
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import dlt

from daybreak_client.database_sync.plan import FULL, UNCHANGED, AccountState, ResourceState, Step, make_steps
from daybreak_client.errors import Damaged, Unreachable
from daybreak_client.published import Feed, PublishedFile, SnapshotChanged
from daybreak_client.service import AccountFiles, Daybreak
from daybreak_client.tables import BIGINT, BOOLEAN, DATE, LEADER_COLUMN, TEXT, TIMESTAMP, UUID, Table

_DELETED = "_deleted"
_OPERATION = "_OP"
_BATCH_ROWS = 5_000
_MAX_ATTEMPTS = 3
_TYPES = {UUID: "text", TEXT: "text", BIGINT: "bigint", BOOLEAN: "bool", DATE: "date", TIMESTAMP: "timestamp"}
_READERS: dict[str, Callable[[str], object]] = {BIGINT: int, BOOLEAN: "true".__eq__}
# A quoted field, or an unquoted one, with the character that ends it.
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^,\n]*))(?:,|\n)')
Row = dict[str, Any]


@dlt.source(name="daybreak")
def daybreak(
    address: str = dlt.config.value,
    token: str = dlt.secrets.value,
    account: str = dlt.config.value,
    resources: Sequence[str] = (),
) -> Any:
    """Load the tables of an account.

    Args:
        address: URL of the service, such as `https://export.example.org`.
        token: API token or session token.
        account: client_id of the account.
        resources: Names of the tables, such as `members`. Default: all nine.
    """
    return dlt.resource(_changes, name="files")(address, token, account.strip().lower(), tuple(resources))


def _changes(address: str, token: str, client_id: str, resources: Sequence[str]) -> Iterator[Any]:
    stored: dict[str, Any] = dlt.current.resource_state().setdefault(client_id, {})
    with Daybreak(address, token) as service, tempfile.TemporaryDirectory() as folder:
        files = service.account(client_id)
        tables = {table.name: table for table in files.tables()}
        feed, steps = _download(files, resources, stored, Path(folder))
        for step in steps:
            table = tables[step.resource]
            full = _loads_full(step)
            changes = _full_rows(step, table, client_id, folder) if full else _changed_rows(step, table, folder)
            keys = (LEADER_COLUMN,) if full else (LEADER_COLUMN, *table.key)
            rows, first = _own_rows(changes, client_id), True
            while batch := list(islice(rows, _BATCH_ROWS)):
                # The hints of the first batch apply to the whole table.
                yield (
                    dlt.mark.with_hints(batch, _hints(table, keys), create_table_variant=True)
                    if first
                    else dlt.mark.with_table_name(batch, table.name)
                )
                first = False
            stored.setdefault("resources", {})[step.resource] = [step.full.rows, step.full.content_sha256]
        stored.update(version=feed.version, chain_id=feed.chain_id, snapshot_id=feed.snapshot_id)


def _download(
    files: AccountFiles, resources: Sequence[str], stored: dict[str, Any], folder: Path
) -> tuple[Feed, list[Step]]:
    """Download what has changed since the stored version, from one snapshot. Raises Unreachable."""
    for _ in range(_MAX_ATTEMPTS):
        published, state = files.published(), _state(stored)
        feed = files.feed(None if state is None else state.version)
        assert feed is not None
        if feed.closed_reason:
            state, feed = None, files.feed() or feed
        if feed.snapshot_id != published.snapshot_id:
            continue
        wanted = {file.resource for file in published.select(resources, ["csv"])}
        steps = [
            step
            for step in make_steps(published, feed, state, reload={})
            if step.resource in wanted and step.action != UNCHANGED
        ]
        try:
            files.download(folder, [file for step in steps for file in _files(step)])
        except SnapshotChanged:
            continue
        return feed, steps
    raise Unreachable("New snapshots were published repeatedly during the load. Try again later.")


def _state(stored: dict[str, Any]) -> AccountState | None:
    """Return the state after the last run, None before the first one."""
    if "version" not in stored:
        return None
    resources = {name: ResourceState(name, rows, digest) for name, (rows, digest) in stored["resources"].items()}
    snapshot_id = stored.get("snapshot_id", "")
    as_of = datetime.fromtimestamp(0, UTC)
    return AccountState(stored["version"], stored["chain_id"], snapshot_id, as_of, "", resources)


def _loads_full(step: Step) -> bool:
    """Return whether a table is loaded in full. Constants would have to be set in unchanged rows."""
    return step.action == FULL or any(delta.constants for delta in step.deltas)


def _files(step: Step) -> Iterable[PublishedFile]:
    return (step.full,) if _loads_full(step) else step.files


def _full_rows(step: Step, table: Table, client_id: str, folder: str) -> Iterator[Row]:
    """Yield a row that deletes those of the account, which is necessary if the file is empty, and the file's rows."""
    yield {LEADER_COLUMN: client_id, _DELETED: True}
    yield from _records(Path(folder) / step.full.name, table)


def _changed_rows(step: Step, table: Table, folder: str) -> Iterator[Row]:
    """Yield the rows of deltas. If several deltas change a key, the last one counts."""
    known: set[tuple[object, ...]] = set()
    for file in reversed(step.files):
        changed: set[tuple[object, ...]] = set()
        for row in _records(Path(folder) / file.name, table):
            key = tuple(row[name] for name in table.key)
            if key not in known:
                changed.add(key)
                if row.pop(_OPERATION) == "D":
                    row[_DELETED] = True
                yield row
        known |= changed


def _own_rows(rows: Iterable[Row], client_id: str) -> Iterator[Row]:
    """Yield rows of an account. Those that delete may lack it. Raises Damaged for a row of another account."""
    for row in rows:
        if row.get(LEADER_COLUMN) != client_id and not row.get(_DELETED):
            raise Damaged("A file contains rows of another account. Contact the operator of the service.")
        yield {**row, LEADER_COLUMN: client_id}


def _hints(table: Table, keys: Sequence[str]) -> Any:
    """Return the hints of a merge that replaces the rows with the same keys."""
    columns: dict[str, Any] = {
        # Nullable, because rows that delete have the keys alone. False replaces the key of an earlier run.
        column.name: {"data_type": _TYPES[column.kind], "nullable": True, "merge_key": column.name in keys}
        for column in table.columns
    }
    columns[_DELETED] = {"data_type": "bool", "nullable": True, "hard_delete": True}
    return dlt.mark.make_hints(table_name=table.name, write_disposition="merge", columns=columns)


def _records(path: Path, table: Table) -> Iterator[Row]:
    """Yield the records of a CSV file or delta. Empty fields are NULL if they are not quoted."""
    readers = {column.name: _READERS[column.kind] for column in table.columns if column.kind in _READERS}
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        names = [name for name, _ in _FIELD.findall(next(lines))]
        record = ""
        for line in lines:
            record += line
            # A line break inside quotes belongs to the record.
            if record.count('"') % 2 == 0:
                fields = _FIELD.finditer(record)
                yield {name: _value(field, readers.get(name)) for name, field in zip(names, fields, strict=True)}
                record = ""


def _value(field: re.Match[str], reader: Callable[[str], object] | None) -> object:
    quoted, unquoted = field.groups()
    if quoted is not None:
        return quoted.replace('""', '"')
    if not unquoted:
        return None
    try:
        return reader(unquoted) if reader else unquoted
    except ValueError:
        # The message of the error is the value.
        raise Damaged("A file contains a value that is not a number.") from None
