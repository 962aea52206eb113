"""Steps that open an account's tables in a tool or make a first request, ready to paste, from `recipes.toml`.

They read the token from the environment or from a private file: every user of a machine can list the arguments of its
processes, and shells store what was typed. The token is entered at a prompt.
"""

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from daybreak.catalogue.resources import resource_named
from daybreak.settings import Settings
from daybreak.settings.text_forms import LOOPBACK_HOSTS
from daybreak.web.api.examples import (
    ENTER_TOKEN_COMMAND,
    VARIABLE,
    download_command,
    file_url,
    sample_format,
    save_token_command,
)

_VALUE = re.compile(r"\{([A-Z_]+)\}")
_ALLOW_PLAIN_HTTP = "\nexport DAYBREAK_PLAIN_HTTP=1"


class Door(StrEnum):
    """How a tool reaches the tables. The value is the setting that enables it, empty for downloads."""

    DOWNLOADS = ""
    SHARING = "sharing.enabled"
    S3 = "attach.s3"
    ICEBERG = "attach.iceberg"

    def is_open(self, settings: Settings) -> bool:
        """Return whether the service has it enabled."""
        return not self or bool(attrgetter(self)(settings))


class Step(msgspec.Struct, frozen=True):
    """Text to paste, with a title and an explanation. `csv`: only for a CSV file, or only for others."""

    title: str
    text: str = ""
    note: str = ""
    csv: bool | None = None


class Recipe(msgspec.Struct, frozen=True):
    """Steps in one tool or language. `key` is part of ids in pages. `tested`: a test runs them against a service."""

    key: str
    title: str
    steps: tuple[Step, ...]
    door: Door = Door.DOWNLOADS
    tested: bool = False


def recipes_of(settings: Settings, client_id: str) -> dict[str, Recipe]:
    """Return the recipes of the page Connect by key, in its order, with the values of an account."""
    return _filled("recipes", settings, client_id)


def examples_of(settings: Settings, client_id: str) -> dict[str, Recipe]:
    """Return programs and commands that download the smallest file, as CSV if the service publishes it, by key."""
    return _filled("examples", settings, client_id)


@cache
def _templates() -> Mapping[str, list[Recipe]]:
    """Return the recipes and the examples, with places for values in their texts."""
    found = tomllib.loads((Path(__file__).parent / "recipes.toml").read_text("utf-8"))
    shared = found.pop("steps")
    for recipe in chain.from_iterable(found.values()):
        recipe["steps"] = [{**shared.get(step.get("use"), {}), **step} for step in recipe["steps"]]
    return msgspec.convert(found, dict[str, list[Recipe]])


def _filled(kind: str, settings: Settings, client_id: str) -> dict[str, Recipe]:
    base_url, resource = settings.base_url, resource_named("campaigns")
    file_format = sample_format(settings.snapshot.formats)
    url, file_name = file_url(base_url, client_id, resource, file_format), resource.file_name(file_format)
    parts = urlsplit(base_url)
    values = {
        "BASE": base_url,
        "ATTACH": settings.attach_url,
        "ACCOUNT": client_id,
        "FILE": file_name,
        "URL": url,
        "ENTER_TOKEN": ENTER_TOKEN_COMMAND,
        "SAVE_TOKEN": save_token_command(f'"${VARIABLE}"'),
        "DOWNLOAD": download_command(url, file_name),
        # Without it, the client refuses to send the token over a network unencrypted.
        "PLAIN_HTTP": "" if parts.scheme == "https" or parts.hostname in LOOPBACK_HOSTS else _ALLOW_PLAIN_HTTP,
    }

    def filled(step: Step) -> Step:
        return replace(step, text=_VALUE.sub(lambda name: values[name[1]], step.text))

    is_csv = file_format.name == "csv"
    return {
        recipe.key: replace(recipe, steps=tuple(filled(step) for step in recipe.steps if step.csv in (None, is_csv)))
        for recipe in _templates()[kind]
    }
