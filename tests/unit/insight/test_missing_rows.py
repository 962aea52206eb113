"""What missing rows have in common."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from daybreak.catalogue.resources import resource_named
from daybreak.insight.missing_rows import MissingRows, missing_rows
from daybreak.insight.published_tables import PublishedTables
from tests.unit.insight.conftest import Published

Row = Mapping[str, object]
MEMBERS = resource_named("members")


def _member(number: int) -> Row:
    """Return one of 100 Members: every fifth lives in Lyon, and became live in the first five days of May."""
    in_lyon = number % 5 == 0
    return {
        "MEMBER_ID": f"00000000-0000-4000-8000-{number:012}",
        "SUBSCRIPTION_STATE": "live",
        "EMAIL": f"{number}@example.org",
        "CITY": "Lyon" if in_lyon else None,
        "FIRST_ACTIVATED_AT": f"2026-{5 if in_lyon else 1 + number % 12:02}-{1 + number % 25 // 5:02} 10:00:00",
    }


@pytest.fixture
def explain(publish: Callable[..., Published]) -> Callable[..., MissingRows]:
    """A function that compares two files of Members."""

    def compare(before: Sequence[Row], now: Sequence[Row] | None, format_name: str = "csv") -> MissingRows:
        earlier = publish(format_name, members=before)
        later = [] if now is None else list(publish(format_name, members=now).entries.values())
        with PublishedTables.open(earlier.store, later, before=earlier.entries["members"]) as tables:
            return missing_rows(tables, MEMBERS, is_absent=now is None)

    return compare


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_common_values_and_days_are_found(explain: Callable[..., MissingRows], format_name: str) -> None:
    members = [_member(number) for number in range(100)]
    found = explain(members, [each for each in members if each["CITY"] is None], format_name)
    assert (found.total, found.before) == (20, 100)
    traits = {(each.column.name, each.first, each.last): (each.missing, each.before) for each in found.traits}
    assert traits["CITY", "Lyon", "Lyon"] == (20, 20)
    missing, before = traits["FIRST_ACTIVATED_AT", "2026-05-01", "2026-05-05"]
    assert missing == 20
    assert before < 35
    assert not {"SUBSCRIPTION_STATE", "EMAIL", "MEMBER_ID"} & {name for name, _, _ in traits}
    assert len(found.sample) == 10
    assert found.sample[0][MEMBERS.column_names.index("EMAIL")] == "0@example.org"


def test_all_rows_of_a_missing_file_are_missing(explain: Callable[..., MissingRows]) -> None:
    found = explain([_member(number) for number in range(3)], None)
    assert (found.total, found.before, found.traits) == (3, 3, ())


def test_nothing_is_missing_from_equal_files(explain: Callable[..., MissingRows]) -> None:
    members = [_member(1)]
    assert explain(members, members) == MissingRows(0, 1, (), ())
