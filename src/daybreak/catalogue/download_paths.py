"""Paths and names under which files are requested, and names under which browsers save them."""

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import NamedTuple

from daybreak.catalogue.formats import DEFAULT_FORMATS, DELTA_FORMATS, Format, format_named
from daybreak.catalogue.resources import RESOURCES, Resource

Files = Mapping[str, tuple[Resource, Format]]

_NAME = re.compile(r"([a-z0-9-]{1,60})-([a-z_]{1,60})-([0-9]{4}-[0-9]{2}-[0-9]{2})([.][a-z.]{1,30})")


@cache
def download_paths(formats: tuple[str, ...]) -> Files:
    """Return the file for each last part of a download path."""
    return {
        resource.path_for(format_named(name)): (resource, format_named(name))
        for resource in RESOURCES
        for name in formats
    }


def manifest_path(client_id: str) -> str:
    """Return the path of an account's manifest."""
    return f"/download/v1/files/{client_id}"


@cache
def link_names(formats: tuple[str, ...]) -> Files:
    """Return the file or delta for each file name in a signed link."""
    deltas = [format for format in DELTA_FORMATS if format.delta_of in {*DEFAULT_FORMATS, *formats}]
    names = {resource.file_name(format): (resource, format) for resource in RESOURCES for format in deltas}
    return {**file_names(formats), **names}


@cache
def file_names(formats: tuple[str, ...]) -> Files:
    """Return the file for each name of a full file."""
    return {
        resource.file_name(format_named(name)): (resource, format_named(name))
        for resource in RESOURCES
        for name in formats
    }


@cache
def delta_names() -> Files:
    """Return the delta for each name of a delta file in the feed, such as `members.delta.csv.gz`."""
    formats = [format for format in DELTA_FORMATS if format.delta_of in DEFAULT_FORMATS]
    return {resource.file_name(format): (resource, format) for resource in RESOURCES for format in formats}


class SavedName(NamedTuple):
    """Account and day of a file, and its own name, such as `members.csv.gz`."""

    account: str
    day: str
    file_name: str

    @property
    def text(self) -> str:
        """The whole name."""
        stem, _, ending = self.file_name.partition(".")
        return f"{self.account}-{stem}-{self.day}.{ending}"


def saved_name(account: str, day: date, file_name: str) -> str:
    """Return the name of a file with its account, in lower-case ASCII, and its day."""
    return SavedName(account, f"{day:%Y-%m-%d}", file_name).text


def parse_saved_name(text: str) -> SavedName | None:
    """Return the parts of such a name, None for another text."""
    found = _NAME.fullmatch(text)
    return SavedName(found[1], found[3], found[2] + found[4]) if found is not None else None
