"""Figures of a delta's rows for the brief of a publication.

They are added and removed Members, opt-outs, and the new campaign with most recipients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from msgspec.structs import replace

from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import NewCampaign, ResourceDelta
from daybreak.export.delta.csv_rows import csv_rows, split_cells, unquoted

_MAXIMUM_LINES = 200_000
_MAXIMUM_NAME_LENGTH = 80
_SIGNS = {b'"I"': 1, b'"D"': -1}


def with_highlights(resource: Resource, delta: ResourceDelta, lines: int, content: Iterator[bytes]) -> ResourceDelta:
    """Return the delta with its figures, from the decompressed CSV file of `lines` rows. Longer files have none."""
    compute = _COMPUTE.get(resource.name)
    if compute is None or not 0 < lines <= _MAXIMUM_LINES:
        return delta
    rows = csv_rows(content)
    next(rows)  # the header
    return compute(resource, delta, (split_cells(row[:-1]) for row in rows))


def _members(resource: Resource, delta: ResourceDelta, rows: Iterator[list[bytes]]) -> ResourceDelta:
    # A changed Member has a row of each sign. Rows are in the order of the key.
    key = itemgetter(*(resource.column_names.index(name) + 1 for name in resource.key))
    found = Counter(sum(_SIGNS[row[0]] for row in group) for _, group in groupby(rows, key))
    return replace(delta, added=found[1], removed=found[-1])


def _opt_outs(resource: Resource, delta: ResourceDelta, rows: Iterator[list[bytes]]) -> ResourceDelta:
    # The state is part of the key, so that deleted rows have it.
    place = resource.column_names.index("SUBSCRIPTION_STATE") + 1
    return replace(delta, opt_outs=sum(_SIGNS[row[0]] for row in rows if row[place] == b'"opted_out"'))


def _new_campaign(resource: Resource, delta: ResourceDelta, rows: Iterator[list[bytes]]) -> ResourceDelta:
    names = ("CAMPAIGN_ID", "CAMPAIGN_NAME", "TEST_CAMPAIGN", "SENT_AT", "RECIPIENT_COUNT", "REPLIED_COUNT")
    if not set(names) <= set(resource.column_names):
        return delta
    places = [resource.column_names.index(name) + 1 for name in names]
    deleted = b""
    largest: NewCampaign | None = None
    for row in rows:
        key, name, is_test, sent_at, recipients, replied = (row[place] for place in places)
        if row[0] == b'"D"':
            deleted = key
        elif key != deleted and name and sent_at and is_test != b"true":
            text = " ".join(unquoted(name).decode().split())[:_MAXIMUM_NAME_LENGTH]
            found = NewCampaign(text, int(recipients or 0), int(replied or 0))
            if text and found.recipients and (largest is None or found.recipients > largest.recipients):
                largest = found
    return replace(delta, campaign=largest)


_COMPUTE = {"members": _members, "member_state_changes": _opt_outs, "campaigns": _new_campaign}
