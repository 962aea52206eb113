"""Sentences about what changed with a publication."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from daybreak.domain.delta import LARGER_THAN_FULL, Chain, ChainEntry, NewCampaign, Publication, ResourceDelta
from daybreak.snapshots.brief import publication_brief

_FIRST = datetime(2026, 11, 20, 4, tzinfo=UTC)


def _chain(*days: Mapping[str, ResourceDelta]) -> Chain:
    publications = [
        Publication(f"s{number}", number, _FIRST + timedelta(days=number), _FIRST + timedelta(days=number))
        for number in range(len(days))
    ]
    entries = tuple(ChainEntry(publication, day) for publication, day in zip(publications, days, strict=True))
    return Chain("chain", publications[-1], 0, entries, "first_publication")


def _growth(rows: int) -> ResourceDelta:
    return ResourceDelta(1_000, 1_000 + rows, inserted=max(rows, 0), deleted=max(-rows, 0))


def test_brief_names_the_largest_changes() -> None:
    resources = {
        "members": _growth(57),
        "campaigns": _growth(1),
        "communities": _growth(-1_204),
        "campaign_links": _growth(3),
        "member_communities": ResourceDelta(5, 5, reason=LARGER_THAN_FULL, inserted=5, deleted=5),
    }
    assert publication_brief(_chain(resources), "s0", 9) == (
        "Member Details has 57 more Members than before.",
        "Communities has 1,204 fewer rows and Campaign Link Performance has 3 more rows.",
        "Nine files are ready, 4 of them without changed rows.",
    )


def _members(added: int, removed: int = 0) -> dict[str, ResourceDelta]:
    return {"members": ResourceDelta(1_000, 1_000 + added - removed, added=added, removed=removed)}


def test_brief_counts_new_and_removed_members_apart() -> None:
    usual = [_members(added, 30) for added in (10, 30, 20)]
    sentences = [
        publication_brief(_chain(*usual, _members(*counts)), "s3", 9)[0]
        for counts in ((20, 0), (40, 40), (1, 2), (0, 1))
    ]
    assert sentences == [
        "Member Details has 20 new Members.",
        "Member Details has 40 new Members, twice the usual number, and no longer has 40 Members.",
        "Member Details has 1 new Member, at most half the usual number, and no longer has 2 Members.",
        "Member Details no longer has 1 Member.",
    ]
    assert "usual" not in publication_brief(_chain(*usual[1:], _members(100)), "s2", 9)[0]
    # A delta from before this count, or of many rows, has only the numbers of rows.
    assert publication_brief(_chain({"members": _growth(-1)}), "s0", 9)[0] == (
        "Member Details has 1 fewer Member than before."
    )


def test_brief_has_opt_outs_and_the_reply_rate_of_a_new_campaign() -> None:
    usual = [{"member_state_changes": ResourceDelta(5, 9, opt_outs=count)} for count in (6, 7, 5)]
    day = {
        "members": _growth(57),
        "member_state_changes": ResourceDelta(5, 30, opt_outs=12),
        "campaigns": ResourceDelta(5, 6, campaign=NewCampaign("Opening night", 400, 55)),
    }
    assert publication_brief(_chain(*usual, day), "s3", 9) == (
        "Member Details has 57 more Members than before; 12 Members opted out, twice the usual number.",
        "\u201c\u2068Opening night\u2069\u201d got replies from 13.8 % of 400 recipients.",
        "Nine files are ready, 8 of them without changed rows.",
    )


def test_brief_counts_rows_and_not_constants() -> None:
    constants = {"members": ResourceDelta(5, 5, constants={"ETL_LOADED_AT": "now"})}
    assert publication_brief(_chain(constants), "s0", 9) == ("Nine files are ready, without changed rows.",)


def test_brief_of_publication_without_deltas_is_empty() -> None:
    assert publication_brief(None, "s0", 9) == ()
    assert publication_brief(_chain({"members": _growth(1)}), "other", 9) == ()
