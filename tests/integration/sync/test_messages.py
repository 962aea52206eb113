"""Errors of databases: no message contains a value of a row."""

import traceback
from collections.abc import Callable

import pytest

from daybreak.catalogue.resources import RESOURCES
from daybreak_client import AccountFiles, DatabaseFailed, sync
from daybreak_client.command import run
from tests.integration.sync.conftest import TOKEN, Target
from tests.parts.csv_content import csv_bytes
from tests.parts.delta_publisher import NORTH, Publisher, community, id_of
from tests.parts.variants import one_of

ID = id_of(1)
SECRET = "ana.secret@example.org"
COMMUNITIES = next(each for each in RESOURCES if each.name == "communities")


TRIGGER = (
    "CREATE FUNCTION daybreak.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} RETURN NEW; END $$; "
    "CREATE TRIGGER refuse BEFORE INSERT ON daybreak.communities FOR EACH ROW EXECUTE FUNCTION daybreak.refuse()"
)
OWN_TABLE = 'DROP TABLE communities; CREATE TABLE communities ("LEADER_ID" uuid, "COMMUNITY_NAME" varchar CHECK ({}))'
SLOW_COPY = (
    "TRUNCATE daybreak.communities; ALTER TABLE daybreak.communities ADD x text DEFAULT pg_sleep(9)::text; DO $$ BEGIN "
    "EXECUTE format('ALTER DATABASE %I SET statement_timeout = 900', current_database()); END $$"
)
# SQL that the user has run, and what the message still says.
USER_RULES = [
    ("duckdb", OWN_TABLE.format('length("COMMUNITY_NAME") < 9'), "CHECK constraint failed"),
    ("postgresql", 'CREATE UNIQUE INDEX names ON daybreak.communities ("COMMUNITY_NAME")', "constraint names"),
    (
        "postgresql",
        "ALTER TABLE daybreak.communities ADD CONSTRAINT s CHECK (\"COMMUNITY_NAME\" < 'a')",
        "constraint s",
    ),
    ("postgresql", TRIGGER.format("RAISE 'no %', NEW.\"COMMUNITY_NAME\";"), "RaiseException"),
    (
        "postgresql",
        TRIGGER.format("RAISE insufficient_privilege USING MESSAGE = NEW, CONSTRAINT = NEW, TABLE = NEW;"),
        "InsufficientPrivilege",
    ),
    ("postgresql", TRIGGER.format('PERFORM NEW."COMMUNITY_NAME"::int;'), "InvalidTextRepresentation"),
    ("postgresql", TRIGGER.format("EXECUTE 'SELECT ' || NEW.\"COMMUNITY_NAME\";"), "Undefined"),
    (
        "postgresql",
        'ALTER TABLE daybreak.communities ALTER "COMMUNITY_NAME" TYPE varchar(9)',
        "Change its type to text",
    ),
    ("postgresql", "DROP TABLE daybreak.communities; CREATE SEQUENCE daybreak.communities", "Rename it, or select"),
    ("postgresql", SLOW_COPY, "canceling statement due to statement timeout"),
]


@pytest.mark.parametrize(("target", "rule", "expected"), USER_RULES, indirect=["target"])
@pytest.mark.parametrize("full", one_of(False, True))
def test_messages_contain_no_value(
    target: Target, north: Publisher, account: AccountFiles, rule: str, expected: str, full: bool,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    north.publish({"communities": [community(1, "Fans")]})
    sync(account, target.url)
    target.query(rule)
    north.publish({"communities": [community(1, "Fans"), community(2, SECRET), community(3, SECRET)]})
    assert expected in failure_of(lambda: sync(account, target.url, full=full))
    monkeypatch.setenv("DAYBREAK_SERVICE", north.service.url)
    monkeypatch.setenv("DAYBREAK_TOKEN", TOKEN)
    run(["sync", target.url, "--account", NORTH, *["--full"] * full])
    printed = capsys.readouterr()
    assert "secret" not in printed.out + printed.err
    assert "Failing row" not in printed.err


def failure_of(work: Callable[[], object]) -> str:
    """Return the message of an error, after a check that its traceback contains no value."""
    with pytest.raises(DatabaseFailed) as caught:
        work()
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    return caught.value.message


@pytest.mark.parametrize(
    ("cells", "place"),
    [
        ((f'"{SECRET}"', '"Fans"', f'"{NORTH}"', "1"), " 2"),
        ((f'"{ID}"', '"Fans"', f'"{NORTH}"', SECRET), " 2"),
        ((f'"{ID}"', '"Fans"', f'"{NORTH}"', "1", f'"{SECRET}"'), " 2"),
        ((f'"{ID}"', f'"{SECRET}', f'"{NORTH}"', "1"), ""),
        ((f'"{ID}"', '"Fans"', f'"{NORTH}"', f'"{SECRET}\nCOPY x, line 7"'), ""),
    ],
)
def test_damaged_file_is_reported_without_a_value(
    target: Target, north: Publisher, account: AccountFiles, cells: tuple[str, ...], place: str
) -> None:
    header = csv_bytes(COMMUNITIES, [])
    north.publish({}).full["communities"] = header + (",".join(cells) + "\n").encode()
    reported = failure_of(lambda: sync(account, target.url))
    assert reported.startswith("communities: ")
    assert place in reported
