"""Random rows of the nine resources, and their random changes, with hostile text."""

import random
import uuid
from datetime import datetime, timedelta

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource

Row = tuple[str | int | bool | None, ...]
HOSTILE = (
    "", " ", '"', '""', ",", "\n", "\r\n", "\r", "\\", "\\.", "a\n\\.\nb", "\\N", "NULL", "null", "'; DROP TABLE x",
    "=1+1", "+1", "é🌅", "\u2028", "\ufeff", "a\u0301", "\x01\x1f\x7f", "\t", "%s", "{0}", "$1", "#", "x" * 3000,
    '","', '"\n"', "I", "D", "\uffff", "\U0010ffff", "ﬀ", "İ", "ß", "Z", "z", "_", "É",
)  # fmt: skip
START = datetime(2026, 11, 1, 4)


class Churn:
    """Rows of one account that change from day to day. The same seed makes the same rows.

    Keys come from a small range, so that rows are deleted and inserted again. Resources without a unique key have
    repeated keys.
    """

    def __init__(self, client_id: str, seed: int, *, nul: bool = False, size: int = 40) -> None:
        self._client_id, self._random, self._size = client_id, random.Random(f"{client_id} {seed}"), size
        self._texts = (*HOSTILE, "a\0b", "\0") if nul else HOSTILE
        self._rows: dict[str, list[Row]] = {resource.name: [] for resource in RESOURCES}

    def day(self) -> dict[str, list[Row]]:
        """Change about a fifth of the rows and return all of them."""
        for resource in RESOURCES:
            if self._random.random() < 0.15:
                continue  # a day without changes
            rows = [row for row in self._rows[resource.name] if self._random.random() > 0.2]
            while len(rows) < self._random.randrange(self._size // 2, self._size):
                rows.append(self._row(resource))
            if resource.key_is_unique:
                places = [resource.column_names.index(name) for name in resource.key]
                rows = list({tuple(row[place] for place in places): row for row in rows}.values())
            elif rows:
                rows.append(self._random.choice(rows))  # the same row twice
            self._random.shuffle(rows)
            self._rows[resource.name] = rows
        return {name: list(rows) for name, rows in self._rows.items()}

    def _row(self, resource: Resource) -> Row:
        return tuple(self._value(column, column.name in resource.key) for column in resource.columns)

    def _value(self, column: Column, in_key: bool) -> str | int | bool | None:
        choose = self._random
        if column.name == "LEADER_ID":
            return self._client_id
        if column.nullable and choose.random() < 0.3:
            return None
        match column.type:
            case ColumnType.UUID:
                return str(uuid.UUID(int=choose.randrange(self._size * 2) * (2**121 + 12345), version=4))
            case ColumnType.BIGINT:
                return choose.choice([0, 1, 2**63 - 1, -(2**63), choose.randrange(10**6)])
            case ColumnType.BOOLEAN:
                return choose.random() < 0.5
            case ColumnType.DATE:
                return f"{START + timedelta(days=choose.randrange(9) - 40_000 * (choose.random() < 0.1)):%Y-%m-%d}"
            case ColumnType.TIMESTAMP:
                return f"{START + timedelta(microseconds=choose.randrange(9) * 333_333):%Y-%m-%dT%H:%M:%S.%fZ}"
            case _:
                return choose.choice(self._texts) + (str(choose.randrange(9)) if in_key else "")
