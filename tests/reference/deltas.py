"""Deltas from dictionaries: an independent implementation of docs/explanation/deltas.md, without streams."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource

Cell = tuple[str, bool] | None
"""Text of a cell and whether it is quoted; None for NULL."""
Row = tuple[Cell, ...]
Key = tuple[Cell, ...]


def parse(content: bytes) -> list[Row]:
    """Return the records of a CSV file, the header first."""
    rows: list[Row] = []
    cells: list[Cell] = []
    text, position = content.decode(), 0
    while position < len(text):
        if text[position] == '"':
            value = ""
            position += 1
            while text[position] != '"' or text[position : position + 2] == '""':
                value += text[position]
                position += 2 if text[position] == '"' else 1
            position += 1
            cells.append((value, True))
        else:
            end = min(found for found in (text.find(",", position), text.find("\n", position)) if found >= 0)
            cells.append((text[position:end], False) if end > position else None)
            position = end
        if text[position] == "\n":
            rows.append(tuple(cells))
            cells = []
            position += 1
        else:
            assert text[position] == ","
            position += 1
            if text[position] == "\n":
                cells.append(None)
                rows.append(tuple(cells))
                cells = []
                position += 1
    assert not cells
    return rows


def write(rows: list[Row]) -> bytes:
    """Return the CSV file of these records."""
    return "".join(",".join(map(_cell_text, row)) + "\n" for row in rows).encode()


def expected_delta(before: bytes, after: bytes, resource: Resource) -> bytes:
    """Return the content of the delta file between two full CSV files."""
    header, *new_rows = parse(after)
    old, new = _grouped(parse(before)[1:], resource), _grouped(new_rows, resource)
    lines: list[Row] = [(("_OP", True), *header)]
    width = len(header) - len(resource.constants)
    places = [resource.column_names.index(name) for name in resource.key]
    for key in sorted(old.keys() | new.keys(), key=lambda key: _order(key, resource)):
        was, now = old.get(key, []), new.get(key, [])
        if [row[:width] for row in was] == [row[:width] for row in now]:
            continue
        if was:
            lines.append((("D", True), *(cell if place in places else None for place, cell in enumerate(was[0]))))
        lines += [(("I", True), *row) for row in now]
    return write(lines)


def applied(before: bytes, delta: bytes, resource: Resource, constants: Mapping[str, str | None]) -> bytes:
    """Return the full CSV file after a delta."""
    header, *rows = parse(before)
    groups = _grouped(rows, resource)
    for operation, *cells in parse(delta)[1:]:
        key = _key(tuple(cells), resource)
        if operation == ("D", True):
            assert all(
                cell is None
                for cell, name in zip(cells, resource.column_names, strict=True)
                if name not in resource.key
            ), "a D row has a value that is not in the key"
            del groups[key]
        else:
            assert operation == ("I", True)
            groups.setdefault(key, []).append(tuple(cells))
    values = {
        resource.column_names.index(name): None if value is None else (value, False)
        for name, value in constants.items()
    }
    result = [header]
    for key in sorted(groups, key=lambda key: _order(key, resource)):
        result += [tuple(values.get(place, cell) for place, cell in enumerate(row)) for row in groups[key]]
    return write(result)


def delta_json(delta: bytes, resource: Resource) -> list[dict[str, object]]:
    """Return the records of the JSON delta that belongs to a CSV delta."""
    records = []
    for operation, *cells in parse(delta)[1:]:
        assert operation is not None
        record: dict[str, object] = {"_OP": operation[0]}
        for column, cell in zip(resource.columns, cells, strict=True):
            value: object = None if cell is None else cell[0]
            if cell is not None and column.type in {ColumnType.BIGINT, ColumnType.BOOLEAN}:
                value = json.loads(cell[0])
            record[column.name] = value
        records.append(record)
    return records


def _grouped(rows: list[Row], resource: Resource) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(_key(row, resource), []).append(row)
    return groups


def _key(row: Row, resource: Resource) -> Key:
    return tuple(row[resource.column_names.index(name)] for name in resource.key)


def _order(key: Key, resource: Resource) -> tuple[tuple[bool, object], ...]:
    values: list[tuple[bool, object]] = []
    for name, cell in zip(resource.key, key, strict=True):
        if cell is None:
            values.append((False, b""))
            continue
        value: object = cell[0].encode()
        if resource.column(name).type is ColumnType.DATE:
            value = date.fromisoformat(cell[0])
        elif resource.column(name).type is ColumnType.TIMESTAMP:
            value = datetime.fromisoformat(cell[0]).astimezone(UTC)
        values.append((True, value))
    return tuple(values)


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    text, quoted = cell
    return '"' + text.replace('"', '""') + '"' if quoted else text
