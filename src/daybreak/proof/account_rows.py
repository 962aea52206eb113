"""Row accounting of single accounts, for their statements."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from daybreak.catalogue.written_sums import KEYS, ROWS
from daybreak.proof.accounting import WrittenFigures
from daybreak.proof.queries import FIGURES, SourceRow
from daybreak.proof.rules import Identity
from daybreak.proof.statement import completeness_of

_MODULUS = 1 << 64


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

    def section(self, client_id: str, statuses: Mapping[str, str]) -> dict[str, Any]:
        """Return the section of the account's statement. `statuses` are those of all accounts together."""
        place = self._written.places[client_id]
        tables: dict[str, dict[str, dict[str, Any]]] = {}
        own = {**statuses, **{each.resource: each.status for each in self._identities.values()}}
        for (resource, table), by_rule in self._rows.items():
            identity = self._identities[resource, table]
            tables.setdefault(resource, {})[table] = self._account(identity, by_rule, place)
            if not self._closes(identity, place):
                own[resource] = "unexplained"
        return completeness_of(tables, own)

    def _account(self, identity: Identity, by_rule: Mapping[str, array[int]], place: int) -> dict[str, Any]:
        excluded = {rule: values[place] for rule, values in by_rule.items() if rule and values[place]}
        kept = by_rule[""][place] if "" in by_rule else 0
        exported = kept if identity.exported is None else self._written.of(identity.resource, identity.exported)[place]
        account: dict[str, Any] = {
            "source": kept + sum(excluded.values()),
            "exported": exported,
            "excluded": excluded,
        }
        sums = {
            figure: self._written.of(identity.resource, figure)[place]
            for _, figure in identity.compared
            if figure not in (ROWS, KEYS, identity.exported)
        }
        return account | ({"sums": sums} if sums else {})

    def _closes(self, identity: Identity, place: int) -> bool:
        for name, figure in identity.compared:
            source = self._figures.get((identity.resource, identity.table, name))
            if (0 if source is None else source[place]) != self._written.of(identity.resource, figure)[place]:
                return False
        return True

    def _add(self, arrays: dict[Any, array[int]], key: object, place: int, value: int) -> None:
        if not value:
            return
        values = arrays.get(key)
        if values is None:
            values = arrays[key] = array("Q", bytes(8 * len(self._written.places)))
        values[place] = (values[place] + value) % _MODULUS
