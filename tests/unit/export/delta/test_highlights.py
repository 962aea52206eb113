"""Figures of a delta's rows for the brief."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.delta import NewCampaign, ResourceDelta
from daybreak.export.delta.delta_lines import DeltaLines, delta_header
from daybreak.export.delta.highlights import with_highlights


def _highlights(
    resource: Resource, changes: Sequence[tuple[str, Mapping[str, str]]], lines: int = 9, piece_bytes: int = 1 << 20
) -> ResourceDelta:
    made = DeltaLines(resource)
    content = delta_header(resource)
    for operation, values in changes:
        cells = [values.get(name, "").encode() for name in resource.column_names]
        content += (made.insert(cells) if operation == "I" else made.delete(cells))[0]
    pieces = (content[start : start + piece_bytes] for start in range(0, len(content), piece_bytes))
    return with_highlights(resource, ResourceDelta(5, 6), lines, pieces)


def test_changed_members_are_neither_added_nor_removed() -> None:
    members = [("I", "1"), ("D", "2"), ("I", "2"), ("D", "3"), ("I", "4"), ("D", "5"), ("I", "6")]
    changes = [(operation, {"MEMBER_ID": f'"{number}"'}) for operation, number in members]
    assert _highlights(resource_named("members"), changes) == ResourceDelta(5, 6, added=3, removed=2)


@pytest.mark.parametrize("piece_bytes", [1, 7, 50, 1000])
def test_rows_within_a_cell_are_not_counted(piece_bytes: int) -> None:
    text = '"A ""name""\n""I"",""9""\n"'
    changes = [("I", {"MEMBER_ID": f'"{number}"', "FIRST_NAME": text, "LAST_NAME": text}) for number in "123"]
    found = _highlights(resource_named("members"), [*changes, ("D", {"MEMBER_ID": '"4"'})], piece_bytes=piece_bytes)
    assert found == ResourceDelta(5, 6, added=3, removed=1)


def test_opt_outs_are_the_added_changes() -> None:
    def change(member: int, state: str) -> dict[str, str]:
        return {"MEMBER_ID": f'"{member}"', "SUBSCRIPTION_STATE": f'"{state}"'}

    changes = [
        ("I", change(1, "opted_out")),
        ("I", change(2, "live")),
        ("I", change(3, "opted_out")),
        ("D", change(4, "opted_out")),
        ("I", change(4, "opted_out")),
    ]
    resource = resource_named("member_state_changes")
    assert _highlights(resource, changes) == ResourceDelta(5, 6, opt_outs=2)
    assert _highlights(resource, changes, lines=200_001) == ResourceDelta(5, 6)


def test_campaign_is_the_new_one_with_most_recipients() -> None:
    def campaign(number: int, name: str, recipients: str, **values: str) -> dict[str, str]:
        sent = {"SENT_AT": "2026-11-26T18:00:00.000000Z", "TEST_CAMPAIGN": "false", "REPLIED_COUNT": "3"}
        return {"CAMPAIGN_ID": f'"{number}"', "CAMPAIGN_NAME": name, "RECIPIENT_COUNT": recipients, **sent, **values}

    changes = [
        ("D", campaign(1, "", "")),
        ("I", campaign(1, '"Known before"', "900")),
        ("I", campaign(2, '"Opening, ""the""\n night"', "400")),
        ("I", campaign(3, '"Smaller"', "20")),
        ("I", campaign(4, '"Test"', "800", TEST_CAMPAIGN="true")),
        ("I", campaign(5, '"Not sent"', "800", SENT_AT="")),
    ]
    found = _highlights(resource_named("campaigns"), changes)
    assert found.campaign == NewCampaign('Opening, "the" night', 400, 3)
    assert _highlights(resource_named("campaigns"), changes[:2]).campaign is None
