"""Figures of a delta's rows for the brief of a publication.

They are added and removed Members, opt-outs, and the new campaign with most recipients.
"""

import re
from collections.abc import Iterator
from functools import cache

from msgspec.structs import replace

from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import NewCampaign, ResourceDelta
from daybreak.export.delta.csv_rows import CELL, CELL_GROUP, unquoted

_MAXIMUM_LINES = 200_000
_MAXIMUM_NAME_LENGTH = 80
_SIGNS = {b'"I"': 1, b'"D"': -1}


def with_highlights(resource: Resource, delta: ResourceDelta, lines: int, content: Iterator[bytes]) -> ResourceDelta:
    """Return the delta with its figures, from the decompressed CSV file of `lines` rows. Longer files have none."""
    compute = _COMPUTE.get(resource.name)
    if compute is None or not 0 < lines <= _MAXIMUM_LINES:
        return delta
    return compute(resource, delta, content)


@cache
def _row_pattern(columns: tuple[str, ...], names: tuple[str, ...]) -> re.Pattern[bytes]:
    cells = [CELL_GROUP if name in names else CELL for name in columns[: columns.index(names[-1]) + 1]]
    # An operation after LF begins a row: quotes within a cell are doubled.
    return re.compile(b",".join([b'\n("[ID]")', *cells]))


def _rows(resource: Resource, content: Iterator[bytes], *names: str) -> Iterator[tuple[bytes, ...]]:
    """Yield the operation and these cells of each row. `names` are in the order of the columns."""
    row = _row_pattern(resource.column_names, names)
    kept = b""
    for piece in content:
        kept += piece
        end = max(kept.rfind(b'\n"I",'), kept.rfind(b'\n"D",'), 0)
        yield from row.findall(kept, 0, end)
        kept = kept[end:]
    yield from row.findall(kept)


def _members(resource: Resource, delta: ResourceDelta, content: Iterator[bytes]) -> ResourceDelta:
    # A changed Member has a row of each sign.
    balance: dict[bytes, int] = {}
    for sign, member in _rows(resource, content, "MEMBER_ID"):
        balance[member] = balance.get(member, 0) + _SIGNS[sign]
    found = list(balance.values())
    return replace(delta, added=found.count(1), removed=found.count(-1))


def _opt_outs(resource: Resource, delta: ResourceDelta, content: Iterator[bytes]) -> ResourceDelta:
    # The state is part of the key, so that deleted rows have it.
    rows = _rows(resource, content, "SUBSCRIPTION_STATE")
    return replace(delta, opt_outs=sum(_SIGNS[sign] for sign, state in rows if state == b'"opted_out"'))


def _new_campaign(resource: Resource, delta: ResourceDelta, content: Iterator[bytes]) -> ResourceDelta:
    names = ("CAMPAIGN_ID", "SENT_AT", "TEST_CAMPAIGN", "RECIPIENT_COUNT", "REPLIED_COUNT", "CAMPAIGN_NAME")
    if not set(names) <= set(resource.column_names):
        return delta
    deleted = b""
    largest: NewCampaign | None = None
    for sign, key, sent_at, is_test, recipients, replied, name in _rows(resource, content, *names):
        if sign == b'"D"':
            deleted = key
        elif key != deleted and name and sent_at and is_test != b"true":
            text = " ".join(unquoted(name).decode().split())[:_MAXIMUM_NAME_LENGTH]
            found = NewCampaign(text, int(recipients or 0), int(replied or 0))
            if text and found.recipients and (largest is None or found.recipients > largest.recipients):
                largest = found
    return replace(delta, campaign=largest)


_COMPUTE = {"members": _members, "member_state_changes": _opt_outs, "campaigns": _new_campaign}
