"""Tools that read a signed link without options, and programs that cannot decompress files."""

import gzip
import json
import warnings
from collections.abc import Callable
from datetime import UTC, datetime

import duckdb
import pandas as pd
import pytest
import requests
from fsspec.implementations.http import HTTPFileSystem

from daybreak.catalogue.resources import RESOURCES, Resource
from tests.acceptance.installation import MAYA, NORTH, Installation
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.warm import printed_by

NAMES = ("campaigns", "members", "member_term_accepts")


def new_token(service: Service, *options: str) -> str:
    """Create an API token for North as an operator."""
    command = ("token", "create", "--seat", MAYA, "--account", NORTH, *options)
    return printed_by(service.installation.folder, *command)


def rows_of(service: Service, link: str) -> int:
    return int(service.request("HEAD", link).headers["X-Row-Count"])


@pytest.mark.parametrize("name", NAMES)
def test_pandas_reads_a_link_without_options(service: Service, name: str) -> None:
    link = service.link(service.token(MAYA, NORTH), NORTH, f"{name}.csv.gz")
    assert link.endswith(f"&name={name}.csv.gz")
    assert len(pd.read_csv(link)) == rows_of(service, link)
    as_json = link.replace("csv", "json")
    assert len(pd.read_json(as_json)) == rows_of(service, as_json)


class HttpFiles(HTTPFileSystem):  # type: ignore[misc]
    """Files over HTTP with a modification time, which DuckDB asks for."""

    def modified(self, path: str) -> datetime:
        return datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize("name", NAMES)
def test_duckdb_reads_a_link_without_options(service: Service, name: str) -> None:
    """DuckDB reads over HTTP with fsspec here, because its own extension is not part of its package."""
    link = service.link(service.token(MAYA, NORTH), NORTH, f"{name}.csv.gz")
    with duckdb.connect() as database:
        database.register_filesystem(HttpFiles())
        assert len(database.read_csv(link)) == rows_of(service, link)
        assert len(database.sql(f"FROM '{link}'")) == rows_of(service, link)


@pytest.mark.parametrize("serve_gzip_as", ["file", "encoding"])
def test_token_decides_for_its_links_alone(service: Service, serve_gzip_as: str) -> None:
    own = service.link(new_token(service, "--serve-gzip-as", serve_gzip_as), NORTH)
    other = service.link(new_token(service), NORTH)
    encodings = [requests.get(link, timeout=PATIENCE_SECONDS).headers.get("Content-Encoding") for link in (own, other)]
    assert encodings == ["gzip" if serve_gzip_as == "encoding" else None, None]
    # A client that does not accept gzip gets the file.
    plain = requests.get(own, headers={"Accept-Encoding": "identity"}, timeout=PATIENCE_SECONDS)
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(plain.content).startswith(b'"CAMPAIGN_ID"')


@pytest.mark.release
def test_token_can_ask_for_files_on_a_service_that_sends_texts(make_installation: Callable[[], Installation]) -> None:
    with serving(make_installation(), settings={"files.serve_gzip_as": "encoding"}) as service:
        tokens = new_token(service, "--serve-gzip-as", "file"), new_token(service)
        links = [service.link(token, NORTH) for token in tokens]
        encodings = [requests.get(link, timeout=PATIENCE_SECONDS).headers.get("Content-Encoding") for link in links]
    assert encodings == [None, "gzip"]


@pytest.mark.release
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
def test_parsons_reads_every_file(service: Service, text_token: str, resource: Resource) -> None:
    with warnings.catch_warnings():
        # Parsons warns of a change of its packages.
        warnings.simplefilter("ignore", RuntimeWarning)
        from parsons.community import Community
    url = f"{service.address}/download/v1/files/{NORTH}/"
    table = Community(NORTH, text_token, url).get_data_export(resource.name)
    link = service.link(text_token, NORTH, resource.download_path)
    assert (tuple(table.columns), table.num_rows) == (resource.column_names, rows_of(service, link))


@pytest.fixture(scope="module")
def text_token(service: Service) -> str:
    return new_token(service, "--serve-gzip-as", "encoding")


def test_token_list_shows_the_choice(service: Service, text_token: str) -> None:
    listed = json.loads(printed_by(service.installation.folder, "token", "list", "--json"))
    choices = {token["last_four"]: token["serve_gzip_as"] for token in listed}
    assert choices[text_token[-4:]] == "encoding"
