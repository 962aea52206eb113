"""Parsing of JSON bodies, and errors that name the invalid field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.errors import FieldFault, InvalidRequest
from daybreak.web.api.auth import LoginRequest
from daybreak.web.doors.sharing.requests import QueryBody
from daybreak.web.http.bodies import MAX_DEPTH, parse_json


def fault_of(body: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_json(body, LoginRequest)
    return caught.value


def test_unknown_fields_are_ignored() -> None:
    assert parse_json(b'{"email": "a", "password": "b", "more": [{}]}', LoginRequest) == LoginRequest("a", "b")


def test_one_byte_order_mark_is_ignored() -> None:
    body = b'{"email": "a", "password": "b"}'
    assert parse_json(b"\xef\xbb\xbf" + body, LoginRequest) == LoginRequest("a", "b")
    assert fault_of(b"\xef\xbb\xbf" * 2 + body).code == "invalid_request"


def test_missing_field_is_named() -> None:
    assert fault_of(b'{"email": "a"}').faults == (FieldFault("/password", "is required"),)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("1", "integer"), ("null", "null"), ("[]", "array"), ("{}", "object"), ("true", "boolean"), ("1.5", "number")],
)
def test_wrong_type_is_named(value: str, kind: str) -> None:
    (fault,) = fault_of(f'{{"email": {value}, "password": "b"}}'.encode()).faults
    assert fault == FieldFault("/email", f"Expected string, got {kind}")


@pytest.mark.parametrize(("value", "kind"), [('"4"', "string"), ("1.5", "number"), ("true", "boolean")])
def test_optional_field_names_the_types_of_json(value: str, kind: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_json(f'{{"version": {value}}}'.encode(), QueryBody)
    assert caught.value.faults == (FieldFault("/version", f"Expected integer or null, got {kind}"),)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"1", b'"x"', b"\xff", b'{"email": "\\ud800", "password": ""}', b"NaN"]
)
def test_invalid_json_is_refused(body: bytes) -> None:
    assert fault_of(body).code == "invalid_request"


def test_depth_is_limited_and_ignores_brackets_in_strings() -> None:
    deep = b'{"email": "a", "password": "b", "x": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    assert fault_of(deep).message == "The body is nested too deeply."
    text = '{"email": "%s", "password": "\\"[["}' % ("[" * 100)
    assert parse_json(text.encode(), LoginRequest).password == '"[['
    assert fault_of(b"[" * 16_000).code == "invalid_request"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"email": "a", "password": "b", "email": "c"}', "email"),
        (rb'{"email": "a", "password": "b", "em\u0061il": "a"}', "email"),
        (b'{"email": "a", "password": "b", "more": [{"x": 1, "y": {}, "x": 1}]}', "x"),
        (rb'{"email": "a", "password": "b", "\u001b": 1, "\u001b": 2}', r"\u001b"),
    ],
)
def test_repeated_field_is_refused_by_name(body: bytes, named: str) -> None:
    """Another reader of the same body, such as a proxy, may choose the other value."""
    assert fault_of(body).message == f"Send the field {named} once."


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_no_other_error(body: bytes) -> None:
    try:
        parse_json(body, LoginRequest)
    except InvalidRequest:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {}, optional={"email": JSON | st.text(), "password": JSON | st.text(), "more": JSON, 'quoted "[': JSON}
)
NESTED = st.integers(10, 20).map(lambda depth: "[" * depth + "]" * depth)


class Members(dict[str, Any]):
    """JSON object with its repeated members."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        if len(self) != len(pairs):
            raise ValueError("repeated member")
        self.values_sent = [value for _, value in pairs]
        # Raises UnicodeEncodeError for a lone surrogate, which the standard library accepts.
        json.dumps(pairs, ensure_ascii=False).encode()


def depth_of(value: object) -> int:
    if isinstance(value, Members | list):
        inner = value.values_sent if isinstance(value, Members) else value
        return 1 + max(map(depth_of, inner), default=0)
    return 0


def reference(body: bytes) -> LoginRequest | None:
    """Parse with the standard library; None when the body must be refused."""
    try:
        value = json.loads(body.decode().removeprefix("\ufeff"), parse_constant=reject, object_pairs_hook=Members)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Members) or depth_of(value) > MAX_DEPTH:
        return None
    email, password = value.get("email"), value.get("password")
    return LoginRequest(email, password) if isinstance(email, str) and isinstance(password, str) else None


def reject(constant: str) -> None:
    raise ValueError(constant)


def parsed(body: bytes) -> LoginRequest | None:
    try:
        return parse_json(body, LoginRequest)
    except InvalidRequest as error:
        pointers = {fault.pointer for fault in error.faults}
    assert pointers <= {"", "/email", "/password"}
    return None


@given(FIELDS | JSON, st.booleans())
def test_any_json_agrees_with_the_standard_library(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert parsed(body) == reference(body)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"email": "", "password": "\udfff"}',
        rb'{"email": "", "password": "", "more": {"\ud800": 1}}',
        b'{"email": "", "password": "", "\x80": 1}',
        b'{"email": "", "password": "", "more": ["\xff"]}',
    ],
)
def test_text_that_is_not_unicode_is_refused_anywhere(body: bytes) -> None:
    """Also in fields that are ignored. Found by the test below."""
    assert parsed(body) is None
    assert reference(body) is None


@given(FIELDS, NESTED, st.data())
def test_any_changed_json_agrees_with_the_standard_library(value: object, nested: str, data: st.DataObject) -> None:
    """A byte is replaced, removed or inserted, or brackets are inserted."""
    body = json.dumps(value).encode()
    at = data.draw(st.integers(0, len(body)))
    piece = data.draw(st.binary(max_size=1) | st.sampled_from([*'[]{}",:\\ \t\n09eE.-', nested]).map(str.encode))
    body = body[:at] + piece + body[at + data.draw(st.integers(0, 1)) :]
    assert parsed(body) == reference(body)
