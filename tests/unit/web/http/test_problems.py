"""Problem documents: the status of each error code, and no internal details."""

import json
import re
from pathlib import Path

import pytest

import daybreak
from daybreak.domain import errors
from daybreak.domain.errors import (
    DaybreakError,
    FieldFault,
    FileDamaged,
    InvalidRequest,
    NotFound,
    RateLimited,
    RequestError,
    Unauthenticated,
    Unavailable,
)
from daybreak.web.http.problems import PROBLEMS, problem_headers, problem_of, problem_response, status_of

SOURCE = Path(daybreak.__file__).parent
# Codes of errors that only builders and commands raise.
INTERNAL_CODES = {"directory_faults", "directory_sync_refused", "disk_short", "verification_failed"}


def answer(error: DaybreakError) -> tuple[int, dict[str, str], dict[str, object]]:
    problem = problem_of(error, request_id="r-1", base_url="https://x.example")
    response = problem_response(problem, problem_headers(error))
    return response.status_code, dict(response.headers), json.loads(bytes(response.body))


def test_every_code_that_web_can_raise_is_in_the_table() -> None:
    used = {code for path in SOURCE.rglob("*.py") for code in re.findall(r'code="([a-z_]+)"', path.read_text())}
    assert used - INTERNAL_CODES <= PROBLEMS.keys()


def test_every_request_error_class_is_a_client_error() -> None:
    for found in vars(errors).values():
        if isinstance(found, type) and issubclass(found, RequestError):
            assert 400 <= PROBLEMS[found.code][0] < 500


def test_documented_error_tree_matches_the_classes() -> None:
    line = re.compile(r"^((?:│   |    |├── |└── )*)(\w+)(?: {2}|$)", re.MULTILINE)
    documented = {name: len(branches) // 4 for branches, name in line.findall(errors.__doc__ or "")}
    classes = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, DaybreakError)]
    assert documented == {found.__name__: len(found.__mro__) - len(DaybreakError.__mro__) for found in classes}


def test_code_outside_the_table_has_the_status_of_its_class() -> None:
    assert status_of(NotFound("x", code="a_later_code")) == 400
    assert status_of(DaybreakError("x", code="a_later_code")) == 500


def test_body_is_a_problem_document() -> None:
    error = InvalidRequest("The field email is wrong.", faults=(FieldFault("/email", "send text"),))
    status, headers, body = answer(error)
    assert (status, headers["content-type"]) == (400, "application/problem+json")
    assert body == {
        "type": "https://x.example/docs#invalid_request",
        "title": "Invalid request",
        "status": 400,
        "detail": "The field email is wrong.",
        "code": "invalid_request",
        "request_id": "r-1",
        "errors": [{"pointer": "/email", "detail": "send text"}],
    }


def test_problem_document_quotes_no_secret() -> None:
    token = "service_api_0123456789abcdefghijABCDEFGHIJ01234567"
    error = InvalidRequest(f"Unknown field {token}.", faults=(FieldFault(f"/{token}", f"Remove {token}."),))
    assert token not in str(answer(error))


def test_challenge_names_the_error_of_an_invalid_token() -> None:
    assert 'error="invalid_token"' in answer(Unauthenticated("x", code="session_ended"))[1]["www-authenticate"]


def test_challenge_without_a_token_names_no_error() -> None:
    assert answer(Unauthenticated("x", code="missing_token"))[1]["www-authenticate"] == 'Bearer realm="daybreak"'


@pytest.mark.parametrize("code", ["request_timeout", "body_too_large"])
def test_unread_body_closes_the_connection(code: str) -> None:
    assert answer(RequestError("x", code=code))[1]["connection"] == "close"


def test_retry_headers_state_the_waiting_time() -> None:
    _, limited, _ = answer(RateLimited("x", retry_after_seconds=17, limit=10, window_seconds=300))
    assert limited["retry-after"] == "17"
    assert limited["ratelimit"] == '"attempts";r=0;t=17'
    assert answer(Unavailable("x", retry_after_seconds=0))[1]["retry-after"] == "1"
    _, ready, _ = answer(NotFound("x", code="snapshot_not_ready", retry_after_seconds=3600))
    assert ready["retry-after"] == "3600"


def test_paths_and_causes_are_not_disclosed() -> None:
    for error in (
        FileDamaged("/srv/files/secret differs"),
        DaybreakError("/srv/secret", code="a_later_code"),
        Unavailable("/srv/state.db is damaged", code="state_unavailable"),
        Unavailable("The role /srv/exporter has no credentials", code="files_unavailable"),
    ):
        assert "/srv" not in json.dumps(answer(error)[2])
