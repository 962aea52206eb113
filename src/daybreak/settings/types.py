"""The types of settings: the values that each accepts, and its description in the reference page and in errors.

A type accepts its own Python values as well as their text form, so that defaults are written as Python values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from types import UnionType
from typing import Annotated, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints, ValidationInfo

from daybreak.catalogue.formats import FORMATS
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.settings.text_forms import (
    InvalidValue,
    Rate,
    parse_base_url,
    parse_duration,
    parse_files_url,
    parse_host_and_port,
    parse_issuer,
    parse_listen,
    parse_mail_url,
    parse_rate,
    parse_size,
    parse_state_url,
    parse_time_of_day,
    require_no_secrets,
    require_one_line,
    require_trimmed,
    resolve_path,
)

T = TypeVar("T")
# The engine and the state database store sizes in 64 bits.
_MAX_SIZE_BYTES = 2**63 - 1
FORMAT_NAMES = tuple(each.name for each in FORMATS)


@dataclass(frozen=True, slots=True)
class Notation:
    """Notation of the values of a type: `name` in the reference, `expected` in errors, after the word "Use"."""

    name: str
    expected: str


def _from_text(parse: Callable[[str], object], type_: type | UnionType) -> BeforeValidator:
    """Return a validator that parses texts, accepts values of `type_` and refuses all others."""

    def validate(value: object) -> object:
        if isinstance(value, str):
            return parse(value)
        if not isinstance(value, type_) or isinstance(value, bool):
            raise ValueError  # noqa: TRY004 - Pydantic reports a ValueError, and passes a TypeError on
        return value

    return BeforeValidator(validate)


def _split(value: object) -> object:
    """Split the text of an environment variable, which separates entries with commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _require_unique(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) != len(values):
        raise InvalidValue("Use each entry once.")
    return values


def _require_text(value: object) -> object:
    if value == "":
        raise ValueError
    return require_trimmed(value) if isinstance(value, str) else value


def _require_storable(size_bytes: int) -> int:
    if size_bytes > _MAX_SIZE_BYTES:
        raise InvalidValue("Use a smaller size.")
    return size_bytes


def require_kind(path: Path | None, is_kind: Callable[[Path], bool], advice: str) -> Path | None:
    """Return a path that is a file, or a folder. `advice` describes another one."""
    try:
        if path is None or is_kind(path):
            return path
    except OSError as error:
        raise InvalidValue(f"{path} cannot be opened: {error.strerror}.") from error
    raise InvalidValue(f"{path} {advice}")


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder that relative paths are resolved against: that of the configuration file, if there is one."""
    file: Path | None = info.context
    return Path.cwd() if file is None else file.parent


def _absolute(path: Path | None, info: ValidationInfo) -> Path | None:
    return None if path is None else resolve_path(path, folder_of(info))


def _require_resources(table: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    unknown = [name for name in table if name not in RESOURCE_NAMES]
    if unknown:
        raise InvalidValue(f"{unknown[0]} is not a resource. Use {', '.join(RESOURCE_NAMES)}.")
    return table


def _require_format(name: str) -> str:
    if name not in FORMAT_NAMES:
        raise ValueError
    return name


def _require_openid(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if "openid" not in scopes:
        raise InvalidValue('Add "openid": without it, the provider sends no ID token.')
    return scopes


def one_of(words: Sequence[str]) -> Notation:
    """Return the notation of a choice between words."""
    quoted = [f'"{word}"' for word in words]
    return Notation(_alternatives([f"`{word}`" for word in quoted]), _alternatives(quoted))


def _alternatives(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


_PATH = Notation("path", "a path")
_FORMAT = one_of(FORMAT_NAMES)
SIZE = Notation("size", 'a size such as "512MB", "1GB" or "2GiB"')

Whole = Annotated[int, _from_text(int, int), Notation("number", "a whole number")]
Share = Annotated[float, _from_text(float, int | float), Notation("share", "a share such as 0.2 for a fifth")]
ShareOrAll = Annotated[
    float,
    _from_text(lambda text: 1.0 if text == "all" else float(text), int | float),
    Notation('"all" or share', '"all", or a share such as 0.02 for one in fifty'),
]
Duration = Annotated[
    timedelta,
    _from_text(parse_duration, timedelta),
    Notation("duration", 'a duration such as "30s", "15m", "4h" or "7d"'),
]
Size = Annotated[int, _from_text(parse_size, int), AfterValidator(_require_storable), SIZE]
Text = Annotated[str, AfterValidator(require_trimmed)]
Secret = Annotated[SecretStr, AfterValidator(lambda secret: SecretStr(require_one_line(secret.get_secret_value())))]
TimeOfDay = Annotated[
    time, _from_text(parse_time_of_day, time), Notation("UTC time of day", 'a UTC time of day such as "04:00"')
]
AbsolutePath = Annotated[Path, BeforeValidator(_require_text), AfterValidator(_absolute), _PATH]
OptionalPath = Annotated[Path | None, BeforeValidator(_require_text), AfterValidator(_absolute), _PATH]
RateLimit = Annotated[
    Rate, _from_text(parse_rate, Rate), Notation("attempts per time", 'attempts per time such as "10/5m"')
]
RateLimits = Annotated[
    tuple[RateLimit, ...],
    BeforeValidator(_split),
    AfterValidator(_require_unique),
    Notation("list of attempts per time", 'a list of attempts per time such as ["5/5m", "20/1h"]'),
]
Networks = Annotated[
    tuple[Annotated[IPv4Network | IPv6Network, _from_text(ip_network, IPv4Network | IPv6Network)], ...],
    BeforeValidator(_split),
    AfterValidator(_require_unique),
    Notation("list of addresses or networks", 'a list of addresses or networks such as ["10.0.0.0/8"]'),
]
HostNames = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")], ...],
    BeforeValidator(_split),
    AfterValidator(_require_unique),
    Notation("list of host names", 'a list of host names such as ["hooks.example.org", "*.example.net"]'),
]
FormatNames = Annotated[
    tuple[Annotated[str, AfterValidator(_require_format)], ...],
    BeforeValidator(_split),
    AfterValidator(_require_unique),
    Notation(f"list of {_FORMAT.name}", f"a list of {_FORMAT.expected}"),
]
SparkTable = Annotated[
    Mapping[str, str], AfterValidator(require_no_secrets), Notation("table of texts", "a table of texts")
]
ApprovedRules = Annotated[
    Mapping[str, tuple[str, ...]],
    AfterValidator(_require_resources),
    Notation("table of lists of texts", 'a table of lists by resource, such as members = ["WHERE email IS NOT NULL"]'),
]
BaseUrl = Annotated[
    str,
    AfterValidator(parse_base_url),
    Notation("http or https URL", 'the public URL of the service, such as "https://export.example.org"'),
]
OptionalUrl = Annotated[
    str,
    AfterValidator(lambda text: parse_base_url(text) if text else text),
    Notation("http or https URL", 'a URL such as "https://s3.export.example.org"'),
]
Issuer = Annotated[
    str,
    AfterValidator(parse_issuer),
    Notation("https URL", 'the https URL of the provider, such as "https://login.example.org"'),
]
MailUrl = Annotated[
    str,
    AfterValidator(parse_mail_url),
    Notation("smtp or smtps URL", 'the URL of a mail server, such as "smtps://mail.example.org"'),
]
Scopes = Annotated[
    tuple[Annotated[str, BeforeValidator(_require_text)], ...],
    BeforeValidator(_split),
    AfterValidator(_require_unique),
    AfterValidator(_require_openid),
    Notation("list of scopes", 'a list of scopes such as ["openid", "email"]'),
]
Listen = Annotated[
    str,
    AfterValidator(parse_listen),
    Notation(
        "host:port or unix:/path",
        'a host and port such as "127.0.0.1:8400" or "[::]:8400", or a socket such as "unix:/run/daybreak/web.sock"',
    ),
]
OptionalListen = Annotated[
    str,
    AfterValidator(lambda text: parse_host_and_port(text) if text else text),
    Notation("host:port", 'a host and port such as "127.0.0.1:9400"'),
]
OptionalUuid = Annotated[UUID | None, Notation("UUID", "a UUID in quotes")]
StateUrl = Annotated[
    SecretStr,
    AfterValidator(lambda url, info: SecretStr(parse_state_url(url.get_secret_value(), folder_of(info)))),
    Notation("database URL", "text in quotes"),
]
FilesUrl = Annotated[
    str,
    AfterValidator(lambda url, info: parse_files_url(url, folder_of(info))),
    Notation(
        "folder or bucket URL", 'a folder, or "s3://bucket/prefix", "gs://bucket/prefix" or "az://container/prefix"'
    ),
]
