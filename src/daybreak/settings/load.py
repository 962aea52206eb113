"""Reads the configuration: the file, then variables over it, then checks that need more than one setting."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from daybreak.domain.errors import OperatorError
from daybreak.settings.kinds import BadValue
from daybreak.settings.sections import SECTIONS, Fault, SettingNote, Settings, SettingsFault

ENVIRONMENT_PREFIX = "DAYBREAK_"
CONFIG_VARIABLE = "DAYBREAK_CONFIG"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as the reference shows it. `default` is as written in the file, None when it has none."""

    key: str
    section: str
    name: str
    written: str
    default: str | None
    text: str
    secret: bool


def setting_rows() -> Iterator[SettingRow]:
    """All settings in the order of the file, the top level (section "") first."""
    for key, note in _notes().items():
        section, _, name = key.rpartition(".")
        shown = None if note.default is None else _as_written(note.default)
        yield SettingRow(key, section, name, note.kind.written, shown, note.text, note.secret)


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings of a `daybreak.toml` (None: defaults alone) with `DAYBREAK_...` variables over it.

    Relative paths start from the file's folder. Raises SettingsFault that lists every fault at once.
    """
    faults: list[Fault] = []
    source = str(path) if path is not None else "configuration"
    values = _from_file(path, faults) if path is not None else {}
    values |= _from_environment(environ, faults)
    folder = path.resolve().parent if path is not None else Path.cwd()
    read: dict[str, object] = {}
    for key, note in _notes().items():
        raw = values.get(key, note.default)
        if raw is None and note.kind.written != "path":
            faults.append(Fault(key, f"is missing: give it in the file or as {_variable(key)}"))
        elif raw is None:
            read[key] = None
        else:
            try:
                read[key] = note.kind.read(raw, folder)
            except BadValue as fault:
                where = f" (from {_variable(key)})" if _variable(key) in environ else ""
                shown = "the value" if note.secret else repr(raw)
                faults.append(Fault(key, f"{shown}{where} cannot be used: {fault}"))
    faults.extend(_joint_faults(read))
    read["source.location"] = _location(read, folder)
    if faults:
        raise SettingsFault(source, faults)
    sections = {name: kind(**_names_of(read, name)) for name, kind in SECTIONS.items()}
    return Settings(**_names_of(read, ""), **sections, file=path.resolve() if path is not None else None)


def _location(read: Mapping[str, object], folder: Path) -> object:
    """The source's location; a path starts from the folder of the file, an address stays as it is."""
    location = read.get("source.location")
    if not isinstance(location, str) or read.get("source.engine") == "postgresql":
        return location
    path = (folder / Path(location).expanduser()).resolve()
    return str(path) if read.get("source.engine") == "duckdb" or path.exists() else location


def _from_file(path: Path, faults: list[Fault]) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        what = "is not there: make one with `daybreakd init`, or name yours with --config."
        raise OperatorError(f"{path} {what}", code=SettingsFault.code) from None
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror}.", code=SettingsFault.code) from fault
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise OperatorError(f"{path} is not TOML: {fault}.", code=SettingsFault.code) from fault
    values: dict[str, object] = {}
    known = _notes()
    for name, value in document.items():
        if name in SECTIONS and isinstance(value, dict):
            for inner, each in value.items():
                _take(f"{name}.{inner}", each, known, values, faults)
        elif name in SECTIONS:
            faults.append(Fault(name, f"is a section: write [{name}] and its settings below"))
        else:
            _take(name, value, known, values, faults)
    return values


def _take(
    key: str, value: object, known: Mapping[str, SettingNote], values: dict[str, object], faults: list[Fault]
) -> None:
    if key in known:
        values[key] = value
        return
    near = get_close_matches(key, known, n=1, cutoff=0.6)
    by_name = [each for each in known if each.rpartition(".")[2] == key.rpartition(".")[2]]
    hint = f"did you mean {(by_name or near)[0]}?" if by_name or near else "remove it"
    faults.append(Fault(key, f"is not a setting: {hint}"))


def _from_environment(environ: Mapping[str, str], faults: list[Fault]) -> dict[str, object]:
    by_variable = {_variable(key): key for key in _notes()}
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable in by_variable:
            values[by_variable[variable]] = text
        elif "__" in variable or get_close_matches(variable, by_variable, n=1, cutoff=0.85):
            near = get_close_matches(variable, by_variable, n=1, cutoff=0.6)
            faults.append(Fault(variable, f"sets nothing: did you mean {near[0]}?" if near else "sets nothing"))
    return values


def _joint_faults(read: Mapping[str, object]) -> Iterator[Fault]:
    """Faults between settings that are right each for itself."""
    base_url = read.get("base_url")
    if read.get("require_https") is True and isinstance(base_url, str) and urlsplit(base_url).scheme != "https":
        yield Fault("require_https", "needs a base_url that starts with https://")
    formats = read.get("snapshot.formats")
    if isinstance(formats, tuple):
        missing = [name for name in ("csv", "json") if name not in formats]
        if missing:
            yield Fault("snapshot.formats", f"add {' and '.join(missing)}: consumers are promised both")
    models_dir = read.get("snapshot.models_dir")
    if isinstance(models_dir, Path) and not models_dir.is_dir():
        yield Fault("snapshot.models_dir", f"{models_dir} is not a folder: make it or leave the setting out")
    link, session = read.get("access.link_lifetime"), read.get("access.session_lifetime")
    if isinstance(link, timedelta) and isinstance(session, timedelta) and link > session:
        yield Fault("access.link_lifetime", "is longer than access.session_lifetime: a link ends with its session")
    location, engine = read.get("source.location"), read.get("source.engine")
    if isinstance(location, str) and location.startswith(("postgresql://", "postgres://")) and engine != "postgresql":
        yield Fault("source.engine", 'write "postgresql": source.location is the address of such a server')
    statements = [read.get(f"directory.{name}") for name in ("accounts", "seats", "access")]
    if any(statements) and not all(statements):
        yield Fault("directory", "give SQL for accounts, seats and access, all three or none")


def _notes() -> dict[str, SettingNote]:
    notes = {}
    for prefix, kind in (("", Settings), *((f"{name}.", kind) for name, kind in SECTIONS.items())):
        for each in fields(kind):
            if "setting" in each.metadata:
                notes[prefix + each.name] = each.metadata["setting"]
    return notes


def _names_of(read: Mapping[str, object], section: str) -> dict[str, Any]:
    return {key.rpartition(".")[2]: value for key, value in read.items() if key.rpartition(".")[0] == section}


def _variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.replace(".", "__").upper()


def _as_written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_written, value)) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    return "{}" if value == {} else str(value)
