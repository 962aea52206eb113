"""Row accounting of single accounts, for their statements."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec

from daybreak.catalogue.written_sums import KEYS, ROWS
from daybreak.proof.accounting import WrittenFigures
from daybreak.proof.queries import FIGURES, SourceRow
from daybreak.proof.rules import Identity
from daybreak.proof.statement import completeness_of

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class _Table:
    """Figures of a source table for a resource, by the place of the account: rows that are kept in the source, exported
    and excluded, sums of columns, and figures of source and files that are not equal for all accounts. Rules and
    columns are sorted JSON texts.
    """

    resource: str
    table: str
    kept: Sequence[int]
    exported: Sequence[int]
    excluded: Sequence[tuple[str, Sequence[int]]]
    sums: Sequence[tuple[str, Sequence[int]]]
    differing: Sequence[tuple[Sequence[int], Sequence[int]]]

    def account(self, place: int) -> str:
        """Return the account of the table for a statement, as JSON with sorted keys."""
        source, excluded, sums = self.kept[place], [], ""
        for rule, values in self.excluded:
            if rows := values[place]:
                source += rows
                excluded.append(f"{rule}:{rows}")
        if self.sums:
            sums = ',"sums":{' + ",".join([f"{figure}:{values[place]}" for figure, values in self.sums]) + "}"
        return f'{{"excluded":{{{",".join(excluded)}}},"exported":{self.exported[place]},"source":{source}{sums}}}'


class AccountRows:
    """Source rows by account, table and rule: 8 bytes each, because there may be 100,000 accounts."""

    def __init__(self, written: WrittenFigures, identities: Iterable[Identity]) -> None:
        self._written = written
        self._identities = {(each.resource, each.table): each for each in identities}
        self._rows: dict[tuple[str, str], dict[str, array[int]]] = {each: {} for each in self._identities}
        self._figures: dict[tuple[str, str, str], array[int]] = {}

    def watch(self, rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
        """Yield the rows, and add those that belong to a known account."""
        for row in rows:
            resource, table, leader, rule, figures = row
            place = None if leader is None else self._written.places.get(leader)
            if place is not None and (resource, table) in self._rows:
                self._add(self._rows[resource, table], rule, place, figures[0])
                if not rule:
                    for name, _ in self._identities[resource, table].compared:
                        self._add(self._figures, (resource, table, name), place, figures[FIGURES.index(name)])
            yield row

    def sections(self, statuses: Mapping[str, str]) -> Callable[[str], msgspec.Raw]:
        """Return a function that returns the section of an account's statement, after all rows. `statuses` are those
        of all accounts together.
        """
        own = {**statuses, **{each.resource: each.status for each in self._identities.values()}}
        places, tables = self._written.places, self._tables()

        @cache
        def layout(unexplained: tuple[str, ...]) -> str:
            """Return the section as JSON with a place for the account of each table."""
            empty: dict[str, dict[str, Any]] = {}
            for each in tables:
                empty.setdefault(each.resource, {})[each.table] = msgspec.Raw(b"%s")
            section = completeness_of(empty, own | dict.fromkeys(unexplained, "unexplained"))
            return msgspec.json.encode(section, order="sorted").decode()

        def section(client_id: str) -> msgspec.Raw:
            place = places[client_id]
            unexplained = [
                each.resource
                for each in tables
                if each.differing and any(source[place] != written[place] for source, written in each.differing)
            ]
            accounts = [each.account(place) for each in tables]
            return msgspec.Raw((layout(tuple(unexplained)) % tuple(accounts)).encode())

        return section

    def _tables(self) -> list[_Table]:
        """Return the figures of each table, sorted, looked up once for all accounts."""
        none = array("Q", bytes(8 * len(self._written.places)))
        found = []
        for (resource, table), by_rule in sorted(self._rows.items()):
            identity = self._identities[resource, table]
            kept = by_rule.get("", none)
            of = partial(self._written.of, resource)
            found.append(
                _Table(
                    resource,
                    table,
                    kept,
                    kept if identity.exported is None else of(identity.exported),
                    [(_json(rule), values) for rule, values in sorted(by_rule.items()) if rule],
                    [
                        (_json(figure), of(figure))
                        for figure in sorted({figure for _, figure in identity.compared})
                        if figure not in (ROWS, KEYS, identity.exported)
                    ],
                    [
                        (source, written)
                        for name, figure in identity.compared
                        if (source := self._figures.get((resource, table, name), none)) != (written := of(figure))
                    ],
                )
            )
        return found

    def _add(self, arrays: dict[Any, array[int]], key: object, place: int, value: int) -> None:
        if not value:
            return
        values = arrays.get(key)
        if values is None:
            values = arrays[key] = array("Q", bytes(8 * len(self._written.places)))
        values[place] = (values[place] + value) % _MODULUS


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()
