"""Descriptions of all settings, for the reference page, the generated configuration file and errors."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from functools import cache
from typing import Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from daybreak.settings.text_forms import Rate, format_duration, format_size
from daybreak.settings.tree import SECTIONS, Settings
from daybreak.settings.types import SIZE, Notation, one_of

_BUILT_IN: Mapping[object, Notation] = {
    bool: Notation("`true` or `false`", "true or false"),
    str: Notation("text", "text in quotes"),
    SecretStr: Notation("text", "text in quotes"),
}


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as shown in the reference.

    `default` is formatted as TOML, or None. `required` settings have no default and must be set.
    """

    key: str
    section: str
    name: str
    written: str
    default: str | None
    required: bool
    text: str


@cache
def known_settings() -> Mapping[str, FieldInfo]:
    """Return all settings by key, such as `snapshot.keep`, in the order of the file, the top level first."""
    top = {name: field for name, field in Settings.model_fields.items() if name not in SECTIONS}
    return top | {
        f"{section}.{name}": field for section, model in SECTIONS.items() for name, field in model.model_fields.items()
    }


def setting_rows() -> Iterator[SettingRow]:
    """Yield the row of each setting in the order of the file, the top level (section "") first."""
    for key, field in known_settings().items():
        section, _, name = key.rpartition(".")
        default = None if field.is_required() or field.default is None else as_toml(field.default, field)
        written = notation_of(field).name + bounds_of(field)
        yield SettingRow(key, section, name, written, default, field.is_required(), field.description or "")


def notation_of(field: FieldInfo) -> Notation:
    """Return how the values of a setting are written."""
    for each in field.metadata:
        if isinstance(each, Notation):
            return each
    if get_origin(field.annotation) is Literal:
        return one_of(get_args(field.annotation))
    return _BUILT_IN[field.annotation]


def bounds_of(field: FieldInfo) -> str:
    """Format the bounds of a setting for the end of a sentence: `, from "30s" to "12h"`; empty without bounds."""
    minimum, maximum, length = (_constraint(field, name) for name in ("ge", "le", "min_length"))
    if length is not None:
        return f", at least {length}"
    if minimum is None:
        return ""
    if maximum is None:
        return f", at least {as_toml(minimum, field)}"
    return f", from {as_toml(minimum, field)} to {as_toml(maximum, field)}"


def _constraint(field: FieldInfo, name: str) -> object:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)


def as_toml(value: object, field: FieldInfo) -> str:
    """Format a value of a setting as it is written in the file."""
    if SIZE in field.metadata and isinstance(value, int):
        return toml_text(format_size(value))
    return _toml(value)


def toml_text(text: str) -> str:
    """Quote a text as a TOML string."""
    return json.dumps(text, ensure_ascii=False)


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case timedelta():
            return toml_text(format_duration(value))
        case time():
            return toml_text(f"{value:%H:%M}")
        case Rate():
            return toml_text(f"{value.attempts}/{format_duration(value.window)}")
        case SecretStr():
            return toml_text(value.get_secret_value())
        case tuple() | list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{toml_text(str(name))} = {_toml(each)}" for name, each in value.items()) + "}"
        case _:
            return toml_text(str(value))
