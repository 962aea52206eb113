"""Paths and names under which files are requested."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from daybreak.catalogue.formats import DEFAULT_FORMATS, DELTA_FORMATS, Format, format_named
from daybreak.catalogue.resources import RESOURCES, Resource

Files = Mapping[str, tuple[Resource, Format]]


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
