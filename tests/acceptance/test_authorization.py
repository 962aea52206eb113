"""Every credential on every account and file, changed links, and forged headers."""

import json
import uuid
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from msgspec.structs import replace

from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.identity import Account, Grant
from daybreak.state.stores import Stores
from tests.acceptance.installation import (
    ACCOUNTS,
    CLOSED,
    FOREIGN,
    FREYA,
    MAYA,
    NORTH,
    NOT_EXPORTED,
    SOUTH,
    UNKNOWN,
    VAULT,
    VIC,
    seat_id,
)
from tests.acceptance.service import AUTH, Service, run_in_parallel

PATHS = [resource.path_for(format_named(name)) for resource in RESOURCES for name in ("csv", "json")]


def test_credentials_open_only_the_files_of_their_account(each_service: Service) -> None:
    service = each_service
    maya = service.token(MAYA, NORTH)
    credentials = {
        "session on North": (maya, {NORTH}),
        "the same session on South": (service.switch_account(maya, SOUTH), {SOUTH}),
        "API token on North": (service.installation.create_token(MAYA, NORTH)[0], {NORTH}),
        "API token on South": (service.installation.create_token(MAYA, SOUTH)[0], {SOUTH}),
        "another seat": (service.token(FREYA, FOREIGN), {FOREIGN}),
        "a seat without Data Export": (service.token(VIC, NORTH), set()),
    }
    other_contexts = {"session on North": {SOUTH, NOT_EXPORTED}, "the same session on South": {NORTH, NOT_EXPORTED}}
    cases = [(name, client_id, path) for name in credentials for client_id in (*ACCOUNTS, UNKNOWN) for path in PATHS]

    def check(number: int) -> None:
        name, client_id, path = cases[number]
        token, accessible = credentials[name]
        found = service.request_file(token, client_id, path)
        case = f"{name}, {client_id}, {path}: {found.status_code} {found.text}"
        if client_id in accessible:
            assert found.status_code == 302, case
            assert f"/{client_id}/" in found.headers["Location"], case
        elif name == "a seat without Data Export" and client_id == NORTH:
            assert (found.status_code, found.json()["code"]) == (403, "data_export_required"), case
        else:
            code = "wrong_context" if client_id in other_contexts.get(name, ()) else "not_your_account"
            if name in other_contexts and client_id == CLOSED:
                code = "account_inactive"
            assert (found.status_code, found.json()["code"]) == (403, code), case
            assert "Location" not in found.headers, case

    def check_every_eighth(first: int) -> None:
        for number in range(first, len(cases), 8):
            check(number)

    run_in_parallel(check_every_eighth, 8)


def test_foreign_and_unknown_accounts_get_the_same_error(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    answers = [
        service.get(path.format(client_id), token=token)
        for path in ("/download/v1/files/{}/campaigns.csv.gz", "/download/v1/files/{}", "/download/v1/audit/{}")
        for client_id in (FOREIGN, UNKNOWN, VAULT, "x")
    ]
    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    assert all(body == bodies[0] for body in bodies)
    assert {answer.status_code for answer in answers} == {403}


def test_api_token_cannot_use_session_endpoints(service: Service) -> None:
    secret, _ = service.installation.create_token(MAYA, NORTH)
    assert service.request_file(secret, NORTH).status_code == 302
    assert service.get(f"/download/v1/files/{NORTH}", token=secret).status_code == 200
    for answer in (
        service.get(f"{AUTH}/context", token=secret),
        service.request("PUT", f"{AUTH}/context", token=secret, json={"context": NORTH}),
        service.request("DELETE", f"{AUTH}/logout", token=secret),
        service.request("POST", f"{AUTH}/second-factor", token=secret),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "session_required")
    forged = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    assert service.request_file(forged, NORTH).status_code == 401


def test_api_token_needs_permissions_and_enabled_account(service: Service) -> None:
    secret, _ = service.installation.create_token(FREYA, FOREIGN)
    session = service.token(FREYA, FOREIGN)
    link = service.link(secret, FOREIGN)
    grant = Grant(seat_id(FREYA), FOREIGN, ("owner",), data_export=True, async_rest_api=True)
    account = ACCOUNTS[FOREIGN]
    for changed, code, needed_by_sessions in (
        (replace(grant, async_rest_api=False), "async_rest_api_required", False),
        (replace(account, api_tokens_enabled=False), "api_tokens_disabled", False),
        (replace(grant, data_export=False), "data_export_required", True),
    ):
        _put(service, changed)
        try:
            found = service.request_file(secret, FOREIGN)
            assert (found.status_code, found.json()["code"]) == (403, code)
            assert service.get(link).json()["code"] == "link_revoked"
            assert service.request_file(session, FOREIGN).status_code == (403 if needed_by_sessions else 302), code
        finally:
            _put(service, grant if isinstance(changed, Grant) else account)
        assert service.request_file(secret, FOREIGN).status_code == 302
        assert service.get(link).status_code == 200


def _put(service: Service, changed: Grant | Account) -> None:
    def put(stores: Stores) -> None:
        if isinstance(changed, Grant):
            stores.directory.put_grants(changed)
        else:
            stores.directory.put_accounts(changed)

    service.installation.change(put)


# --- Links ----------------------------------------------------------------------------------------


def test_changed_link_is_refused(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH, "campaigns.csv.gz")
    assert service.get(link).status_code == 200
    address, _, query = link.partition("?")
    fields = parse_qsl(query, strict_parsing=True)
    assert [name for name, _ in fields] == ["expires", "nonce", "subject", "kid", "signature", "name"]
    head, snapshot, name = address.rsplit("/", 2)
    named = dict(fields)
    changed = [f"{address}?{spelled}" for spelled in _other_spellings(fields)]
    changed += [
        f"{address}?{urlencode({**named, **other})}"
        for other in (
            {"expires": "99999999999"},
            {"subject": ("2" if named["subject"][0] == "1" else "1") + named["subject"][1:]},
            {"kid": "deadbeef"},
            {"signature": "0" * 64},
            {"extra": "1"},
        )
    ]
    changed += [
        address,
        f"{address}?",
        f"{address}?&{query}",
        f"{link}&",
        f"{address}?{query.replace('&', '&&')}",
        f"{address}?{query.replace('&', ';')}",
        f"{address};x?{query}",
        f"{head}/{snapshot}/members.csv.gz?{query}",
        f"{head}/{uuid.uuid4()}/{name}?{query}",
        f"{head}/{snapshot.upper()}/{name}?{query}",
        f"{head.replace(NORTH, SOUTH)}/{snapshot}/{name}?{query}",
        f"{head.replace(NORTH, NORTH.upper())}/{snapshot}/{name}?{query}",
        f"{head}/{snapshot}/x/../{name}?{query}",
        f"{head}/{snapshot}/./{name}?{query}",
        f"{head}//{snapshot}/{name}?{query}",
        f"{head}/{snapshot}/{name}/?{query}",
        f"{head}/{snapshot}/%63ampaigns.csv.gz?{query}",
        f"{head}/{snapshot}%2f{name}?{query}",
        f"{head}/{snapshot}/{name}%00?{query}",
        f"{head}/{snapshot}/..%2f..%2f{name}?{query}",
        f"{head}/{snapshot}/campaigns.tar.gz?{query}",
        f"{head}/{snapshot}/CAMPAIGNS.csv.gz?{query}",
    ]
    for url in changed:
        # Refused by its signature or path, before any lookup.
        assert _raw(service, url) in {(403, "invalid_link"), (404, "unknown_file"), (404, "not_found")}, url
    assert service.get(link).status_code == 200


def _other_spellings(fields: list[tuple[str, str]]) -> list[str]:
    """Return queries in which one parameter is encoded differently or repeated."""
    found = []
    for index, (name, value) in enumerate(fields):
        for other in (
            name,
            f"{name}=+{value}",
            f"{name}={value}%0a",
            f"{name}=%{ord(value[0]):02x}{value[1:]}",
            f"%{ord(name[0]):02x}{name[1:]}={value}",
            f"{name}[]={value}",
            f"{name}==={value}",
            f"{name}={value}&{name}={value}",
        ):
            spelled = [f"{field}={field_value}" for field, field_value in fields]
            spelled[index] = other
            found.append("&".join(spelled))
    return found


def test_order_of_link_parameters_does_not_matter(service: Service) -> None:
    address, _, query = service.link(service.token(MAYA, NORTH), NORTH).partition("?")
    assert service.get(f"{address}?{'&'.join(reversed(query.split('&')))}").status_code == 200


def _raw(service: Service, url: str) -> tuple[int, str]:
    """Send a request with an unchanged path. Return its status and error code."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    try:
        connection.request("GET", url.removeprefix(service.address))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["code"]
    finally:
        connection.close()


# --- Headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic bWF5YTp4",
        "bearer",
        "Token x",
        "Bearer a b",
        "Bearer \xff",
        "Bearer " + "a" * 5000,
    ],
)
def test_malformed_authorization_header_is_refused(service: Service, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    found = service.get(f"/download/v1/files/{NORTH}/campaigns.csv.gz", headers=headers)
    assert found.status_code == 401
    assert found.headers["WWW-Authenticate"].startswith("Bearer ")


def test_location_ignores_the_host_header(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    forged = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    found = service.request_file(token, NORTH, headers=forged)
    assert urlsplit(found.headers["Location"]).netloc == f"127.0.0.1:{service.port}"
    paths = ("/nowhere", "/openapi.json", "/docs", "/dashboard/", "/dashboard/sign-in", f"/dashboard/{NORTH}/files")
    answers = [
        found,
        service.get(f"/download/v1/files/{NORTH}", token=token, headers=forged),
        *(service.get(path, headers=forged) for path in paths),
    ]
    for answer in answers:
        assert "evil" not in answer.text, answer.url
        assert "evil" not in str(answer.headers), answer.url
