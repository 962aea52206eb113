"""Responses to requests for stored files."""

from datetime import UTC, datetime

import pytest

from daybreak.domain.errors import RequestError
from daybreak.domain.snapshot import CurrentFile, StoredFormat
from daybreak.web.http.files import FileAnswer, Segment, entity_of, file_answer, file_headers
from daybreak.web.http.negotiation import Representation

AT = datetime(2026, 11, 22, 4, tzinfo=UTC)
FILE = CurrentFile("s", AT, AT, 1, "members", "csv", 7, StoredFormat(1000, "ab" * 32, 1, "cd" * 32, "key"))
OTHER = CurrentFile("s", AT, AT, 1, "members", "csv", 7, StoredFormat(1000, "ef" * 32, 1, "cd" * 32, "key"))
AS_FILE = Representation("application/gzip", None, "members.csv.gz", "f", varies=True)
AS_TEXT = Representation("text/csv", "gzip", "members.csv", "c", varies=True)


def answer(method: str = "GET", **headers: str) -> FileAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return file_answer(entity_of(FILE, AS_FILE), named, method=method)


def test_request_without_range_returns_the_whole_file() -> None:
    found = answer()
    assert (found.status, found.length, found.segments) == (200, 1000, (Segment(b"", 0, 1000),))
    assert found.headers["content-length"] == "1000"


def test_head_has_the_headers_of_get_and_no_body() -> None:
    assert answer("HEAD") == FileAnswer(200, answer().headers)
    assert answer("HEAD", range="bytes=0-9") == answer("HEAD")


def test_one_range_is_partial_content() -> None:
    found = answer(range="bytes=10-19")
    assert (found.status, found.segments) == (206, (Segment(b"", 10, 10),))
    assert found.headers["content-range"] == "bytes 10-19/1000"
    assert found.headers["content-length"] == "10"


def test_several_ranges_are_multipart() -> None:
    found = answer(range="bytes=0-9,20-29")
    assert found.status == 206
    boundary = found.headers["content-type"].removeprefix("multipart/byteranges; boundary=")
    assert [(segment.start, segment.length) for segment in found.segments] == [(0, 10), (20, 10), (1000, 0)]
    assert all(boundary.encode() in segment.prefix for segment in found.segments)
    assert found.headers["content-length"] == str(found.length)
    assert "content-range" not in found.headers


def test_outdated_if_range_returns_the_whole_file() -> None:
    assert answer(range="bytes=10-19", if_range='"other"').status == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [({"range": "bytes=5000-"}, "range_not_satisfiable"), ({"if_match": '"other"'}, "precondition_failed")],
)
def test_failed_conditions_and_ranges_are_errors(headers: dict[str, str], code: str) -> None:
    with pytest.raises(RequestError) as caught:
        answer(**headers)
    assert caught.value.code == code


def test_matching_etag_returns_no_content() -> None:
    found = answer(if_none_match=answer().headers["etag"])
    assert (found.status, found.segments) == (304, ())
    assert not {"content-type", "content-length", "content-disposition"} & found.headers.keys()
    assert found.headers["etag"] == answer().headers["etag"]


def test_headers_differ_by_file_and_representation() -> None:
    one, other, text = file_headers(FILE, AS_FILE), file_headers(OTHER, AS_FILE), file_headers(FILE, AS_TEXT)
    assert len({one["etag"], other["etag"], text["etag"]}) == 3
    assert one["repr-digest"] != other["repr-digest"]
    assert "content-encoding" not in one
    assert text["content-encoding"] == "gzip"


def test_cached_headers_are_not_modified() -> None:
    before = dict(file_headers(FILE, AS_FILE))
    answer(range="bytes=0-9,20-29")
    answer(range="bytes=0-9")
    assert file_headers(FILE, AS_FILE) == before
