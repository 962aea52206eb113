"""Approximate locations of addresses, from a database file in the MaxMind DB format.

https://maxmind.github.io/MaxMind-DB/. No request leaves the service. Supported records: those of GeoLite2 and GeoIP2
(City and Country) and of DB-IP, with names in several languages, and those of IPinfo, with plain texts.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import maxminddb
import structlog
from maxminddb import InvalidDatabaseError, Reader

from daybreak.domain.errors import OperatorError

_LANGUAGE = "en"
_MAXIMUM_LENGTH = 100
_log = structlog.get_logger("daybreak.web")


def locations_of(database: Path | None, addresses: Sequence[str]) -> dict[str, str]:
    """Return the location of each address that the database contains, such as `Oslo, Norway`.

    A database that cannot be read is logged: the page is shown without locations.
    """
    if database is None:
        return {}
    try:
        reader = _reader(database)
        found = {address: _location(reader, address) for address in dict.fromkeys(addresses)}
    except (InvalidDatabaseError, OSError, ValueError) as error:
        _log.warning("location_database_unreadable", file=str(database), cause=str(error))
        return {}
    return {address: location for address, location in found.items() if location}


def describe_database(database: Path) -> str:
    """Return type and day of a database. Raises OperatorError if it cannot be read."""
    try:
        metadata = _reader(database).metadata()
    except OSError as error:
        raise OperatorError(
            f"access.location_database: {database} cannot be read: {error.strerror}. Download the file again."
        ) from error
    except (InvalidDatabaseError, ValueError) as error:
        raise OperatorError(
            f"access.location_database: {database} is not a valid MaxMind DB file. Download the file again."
        ) from error
    return f"{metadata.database_type} of {datetime.fromtimestamp(metadata.build_epoch, UTC):%Y-%m-%d}"


def _reader(database: Path) -> Reader:
    """Open a database, or return the open one if the file has not been replaced. Raises OSError, InvalidDatabaseError.

    Programs that update the file write a new one and rename it.
    """
    status = database.stat()
    return _open(database, status.st_ino, status.st_mtime_ns)


@lru_cache(1)
def _open(database: Path, _inode: int, _modified_ns: int) -> Reader:
    return maxminddb.open_database(database)


def _location(reader: Reader, address: str) -> str:
    try:
        record = reader.get(address)
    except ValueError:  # not an address, or of version 6 in a database of version 4
        return ""
    if not isinstance(record, Mapping):
        return ""
    names = [_name(record.get("city")), _name(record.get("country"))]
    return ", ".join(name for name in names if name)[:_MAXIMUM_LENGTH]


def _name(value: object) -> str:
    """Return the English name of a place, or the plain text of it."""
    if isinstance(value, Mapping):
        names = value.get("names")
        value = names.get(_LANGUAGE) if isinstance(names, Mapping) else None
    return value if isinstance(value, str) else ""
