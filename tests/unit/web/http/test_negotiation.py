"""Content negotiation: the file, or the content for clients that request it and accept gzip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.catalogue.formats import FORMATS, format_named
from daybreak.catalogue.resources import resource_named
from daybreak.domain.identity import ServeGzipAs
from daybreak.filestore.object_sink import stored_headers
from daybreak.web.http.negotiation import Representation, accepts_gzip, choose, stored_representation, weights


def chosen(accept: str | None, encoding: str | None, *, format_name: str = "csv", as_: str = "file") -> Representation:
    return choose(
        resource_named("campaigns"),
        format_named(format_name),
        accept=[accept] if accept is not None else [],
        accept_encoding=[encoding] if encoding is not None else [],
        serve_gzip_as="encoding" if as_ == "encoding" else "file",
    )


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        (None, None),
        ("*/*", "gzip, deflate"),
        ("text/csv", None),
        ("text/csv", "identity"),
        ("text/csv", "gzip;q=0"),
        ("text/csv;q=0", "gzip"),
        ("text/*", "gzip"),
        ("application/json", "gzip"),
        ("text/csv;q=0.5, application/gzip", "gzip"),
        ("text/csv;q=nonsense", "gzip"),
    ],
)
def test_file_is_the_default(accept: str | None, encoding: str | None) -> None:
    found = chosen(accept, encoding)
    assert (found.content_type, found.content_encoding, found.file_name) == (
        "application/gzip",
        None,
        "campaigns.csv.gz",
    )
    assert found.varies


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("text/csv", "gzip"),
        ("TEXT/CSV ; header=present", "br, GZIP;q=0.1"),
        ("application/gzip;q=0.5, text/csv", "x-gzip"),
        ("text/html, text/csv;q=0.2, */*", "gzip, deflate"),
    ],
)
def test_content_is_selected_by_accept_and_gzip(accept: str, encoding: str) -> None:
    found = chosen(accept, encoding)
    assert found.content_type == "text/csv; charset=utf-8; header=present"
    assert (found.content_encoding, found.file_name) == ("gzip", "campaigns.csv")


def test_json_content_is_selected_by_its_own_type() -> None:
    assert chosen("application/json", "gzip", format_name="json").content_type == "application/json"
    assert chosen("text/csv", "gzip", format_name="json").content_type == "application/gzip"


def test_encoding_setting_sends_content_to_gzip_clients() -> None:
    assert chosen("*/*", "gzip", as_="encoding").content_encoding == "gzip"
    assert chosen("*/*", None, as_="encoding").content_encoding is None


def test_internally_compressed_format_has_one_representation() -> None:
    found = chosen("application/vnd.apache.parquet", "gzip", format_name="parquet", as_="encoding")
    assert (found.content_encoding, found.file_name, found.varies) == (None, "campaigns.parquet", False)


def test_wildcard_encoding_does_not_accept_gzip() -> None:
    assert not accepts_gzip(["*"])


@pytest.mark.parametrize("format_name", [each.name for each in FORMATS])
@pytest.mark.parametrize("serve_gzip_as", ["file", "encoding"])
def test_stored_representation_has_the_headers_of_the_upload(format_name: str, serve_gzip_as: ServeGzipAs) -> None:
    found = stored_representation(resource_named("campaigns"), format_named(format_name), serve_gzip_as)
    headers = stored_headers("campaigns", format_name, serve_gzip_as)
    assert headers["Content-Type"] == found.content_type
    assert headers.get("Content-Encoding") == found.content_encoding
    assert headers["Content-Disposition"] == f'attachment; filename="{found.file_name}"'


@given(st.lists(st.text(max_size=60) | st.text("gzip*;q=01.,5 x-", max_size=60), max_size=3))
def test_any_header_yields_weights_from_0_to_1(values: list[str]) -> None:
    found = weights(values)
    assert all(0 <= quality <= 1 for quality in found.values())
    assert not any(set(name) & set(",;") or name != name.strip().lower() for name in found)


@given(
    st.dictionaries(
        st.sampled_from(["gzip", "x-gzip", "br", "identity"]), st.integers(0, 1000).map(lambda q: q / 1000), min_size=1
    )
)
def test_any_list_of_weights_round_trips(sent: dict[str, float]) -> None:
    header = ", ".join(f"{name.upper()} ; q={quality:.3f}" for name, quality in sent.items())
    assert weights([header]) == sent
    assert accepts_gzip([header]) == (sent.get("gzip", 0) > 0 or sent.get("x-gzip", 0) > 0)
