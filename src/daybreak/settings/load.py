"""Loading of the configuration: the file and the variables that override it. One error lists every fault."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from daybreak.domain.errors import OperatorError
from daybreak.domain.operator_file import read_bounded
from daybreak.settings.reference import as_toml, bounds_of, known_settings, notation_of
from daybreak.settings.text_forms import InvalidValue
from daybreak.settings.tree import SECTIONS, Settings

_MAX_BYTES = 1 << 20
_PREFIX = "DAYBREAK_"
# Variables of the client, which may run in the same environment, and of this program.
_OTHER_VARIABLES = frozenset({"CONFIG", "SERVICE", "TOKEN", "TOKEN_FILE", "ACCOUNT", "PROFILE", "PLAIN_HTTP"})
_SECRET_NAMES = ("password", "client_secret")
# Names that Spark and its connectors use, such as fs.s3a.secret.key.
_SECRET_SPARK_NAME = re.compile(
    r"password|secret|token|credential|(access|account|private|api)[._-]?key", re.IGNORECASE
)
_URL_WITH_PASSWORD = re.compile(r"://[^/?#]*:[^/?#]*@|[?&]password=", re.IGNORECASE)
# A URL with a user or a query.
_URL_WITH_MORE = re.compile(r"://.*[@?]")
# Kubernetes adds these to every container when a service is named daybreak or daybreak-...
_KUBERNETES = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: the setting or variable (`key`), and the problem with its fix (`detail`)."""

    key: str
    detail: str

    def __str__(self) -> str:
        """Format the fault as one line."""
        return f"{self.key}: {self.detail}"


class SettingsFault(OperatorError):
    """The configuration is invalid. `faults` lists every fault."""

    code = "settings_fault"

    def __init__(self, source: str, faults: list[Fault]) -> None:
        lines = "\n".join(f"  {fault}" for fault in faults)
        count = "one setting is" if len(faults) == 1 else f"{len(faults)} settings are"
        super().__init__(f"{source}: {count} invalid\n{lines}")
        self.faults = faults


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a `daybreak.toml` (None: defaults only), overridden by `DAYBREAK_...` variables.

    Raises SettingsFault that lists every fault.
    """
    source = str(path) if path is not None else "configuration"
    document = _read_file(path) if path is not None else {}
    variables = {key: environ[_variable(key)] for key in known_settings() if _variable(key) in environ}
    for key, text in variables.items():
        section, _, name = key.rpartition(".")
        values = document.setdefault(section, {}) if section else document
        # Any other value is a fault of the file.
        if isinstance(values, dict):
            values[name] = text
    faults = list(_unknown_variables(environ))
    settings = None
    try:
        settings = Settings.model_validate(document, context=path.resolve() if path is not None else None)
    except ValidationError as error:
        faults += [_fault(each, variables) for each in error.errors(include_url=False)]
    if settings is None or faults:
        raise SettingsFault(source, faults)
    return settings


def secret_in_file(path: Path) -> str | None:
    """Return the name of a setting in a file whose value is a secret, None without one. Raises OperatorError."""
    document = _read_file(path)
    for key in known_settings():
        section, _, name = key.rpartition(".")
        values = document.get(section, {}) if section else document
        value = values.get(name) if isinstance(values, dict) else None
        if isinstance(value, dict):
            if any(_SECRET_SPARK_NAME.search(word) or _has_password(text) for word, text in value.items()):
                return key
        elif value and (name in _SECRET_NAMES or _has_password(value)):
            return key
    return None


def _has_password(value: object) -> bool:
    return isinstance(value, str) and _URL_WITH_PASSWORD.search(value) is not None


def _read_file(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_bounded(path, _MAX_BYTES)[0].decode("utf-8-sig"))
    except FileNotFoundError:
        hint = "Create it with `daybreakd init`, or select another file with --config."
        raise OperatorError(f"{path} does not exist. {hint}", code=SettingsFault.code) from None
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror}.", code=SettingsFault.code) from fault
    except UnicodeDecodeError as fault:
        raise OperatorError(f"{path} is not UTF-8 text. Save it as UTF-8.", code=SettingsFault.code) from fault
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise OperatorError(f"{path} is not TOML: {fault}.", code=SettingsFault.code) from fault


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[Fault]:
    """Yield a fault for each variable that is meant as a setting; ignore variables of other programs."""
    known = {_variable(key) for key in known_settings()}
    for name in environ:
        short = name.removeprefix(_PREFIX)
        if name == short or name in known or short in _OTHER_VARIABLES or _KUBERNETES.fullmatch(short):
            continue
        near = _nearest(short.lower().replace("__", "."), known_settings())
        if "__" in short or near:
            yield Fault(name, "is not a setting. " + (f"Did you mean {_variable(near)}?" if near else "Remove it."))


def _nearest(key: str, known: Collection[str]) -> str | None:
    """Return the name that is most like `key`, in which `_` may separate the section, None without one."""
    names = {each.replace(".", "_"): each for each in known}
    word = key.replace(".", "_")
    by_name = [each for each in known if each.rpartition(".")[2] == key.rpartition(".")[2]]
    near = [word] if word in names else get_close_matches(word, names, n=1, cutoff=0.75)
    return names[near[0]] if near else by_name[0] if len(by_name) == 1 else None


def _fault(error: ErrorDetails, variables: Mapping[str, str]) -> Fault:
    """Describe one validation error: the value, the variable that it comes from, if any, and the fix."""
    known = known_settings()
    key = ".".join(str(part) for part in error["loc"][:2] if isinstance(part, str))
    if error["type"] == "extra_forbidden":
        near = _nearest(key, [*known, *SECTIONS])
        return Fault(key, "is not a setting. " + (f"Did you mean {near}?" if near else "Remove it."))
    if key in SECTIONS:
        return Fault(key, f"is a section. Write [{key}] and its settings below it.")
    field = known[key]
    if error["type"] == "missing":
        return Fault(key, f"is missing. Set it in the file or as {_variable(key)}.")
    cause = error.get("ctx", {}).get("error")
    notation = notation_of(field)
    is_list = key in variables and notation.name.startswith("list of")
    commas = " In a variable, separate entries with commas, without brackets." if is_list else ""
    advice = str(cause) if isinstance(cause, InvalidValue) else f"Use {notation.expected}{bounds_of(field)}.{commas}"
    if error["input"] is None:
        return Fault(key, f"is missing. {advice}")
    origin = f" (from {_variable(key)})" if key in variables else ""
    if error["input"] == "":
        return Fault(key, f"is empty{origin}. {advice}")
    # Settings of Spark, and URLs, may contain a secret where none is allowed.
    is_secret = field.annotation in {SecretStr, Mapping[str, str]} or _URL_WITH_MORE.search(str(error["input"]))
    value = "the value" if is_secret else as_toml(error["input"], field)
    return Fault(key, f"{value}{origin} is invalid. {advice}")


def _variable(key: str) -> str:
    return _PREFIX + key.replace(".", "__").upper()
