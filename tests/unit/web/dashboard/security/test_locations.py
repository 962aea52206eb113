"""Locations of addresses."""

from pathlib import Path

import pytest

from daybreak.domain.errors import OperatorError
from daybreak.web.dashboard.security.locations import describe_database, locations_of
from tests.parts.location_database import write_location_database

OSLO = {"city": {"names": {"en": "Oslo", "nb": "Oslo"}}, "country": {"iso_code": "NO", "names": {"en": "Norway"}}}
RECORDS = {
    "203.0.113.0/24": OSLO,
    "198.51.100.0/25": {"country": {"names": {"en": "Kenya"}}},
    "2001:db8::/32": {"city": "Lyon", "country": "France"},
    "192.0.2.0/24": {"city": {"names": {"nb": "Bergen"}}, "continent": {"names": {"en": "Europe"}}},
    "100.64.0.0/16": "text",
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "city.mmdb"
    write_location_database(path, RECORDS)
    return path


def test_city_and_country_are_in_english(database: Path) -> None:
    addresses = ["203.0.113.9", "198.51.100.1", "2001:db8::1", "203.0.113.9"]
    assert locations_of(database, addresses) == {
        "203.0.113.9": "Oslo, Norway",
        "198.51.100.1": "Kenya",
        "2001:db8::1": "Lyon, France",
    }


def test_unknown_addresses_have_no_location(database: Path) -> None:
    addresses = ["198.51.100.200", "192.0.2.1", "100.64.0.1", "127.0.0.1", "::1", "", "nonsense"]
    assert locations_of(database, addresses) == {}
    assert locations_of(None, ["203.0.113.9"]) == {}


def test_replaced_database_is_read(database: Path) -> None:
    assert locations_of(database, ["203.0.113.9"]) == {"203.0.113.9": "Oslo, Norway"}
    other = database.with_suffix(".new")
    write_location_database(other, {"203.0.113.0/24": {"country": "Chile"}})
    other.replace(database)
    assert locations_of(database, ["203.0.113.9"]) == {"203.0.113.9": "Chile"}


@pytest.mark.parametrize("content", [b"", b"not a database", b"\xab\xcd\xefMaxMind.com"])
def test_unreadable_database_gives_no_locations(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.mmdb"
    for problem in ("cannot be read: No such file or directory", "is not a valid MaxMind DB file"):
        assert locations_of(path, ["203.0.113.9"]) == {}
        with pytest.raises(OperatorError) as caught:
            describe_database(path)
        assert caught.value.message == f"access.location_database: {path} {problem}. Download the file again."
        path.write_bytes(content)


def test_database_is_described(database: Path) -> None:
    assert describe_database(database) == "Test-City of 2026-11-18"
