"""Each response in the OpenAPI document occurs. `Service.request` checks that no other response occurs."""

import base64
import functools
import gzip
import json
import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daybreak.access import throttle
from daybreak.credentials import keyring, session_jwt, signed_link, totp
from daybreak.credentials.session_jwt import Claims, TokenType
from daybreak.credentials.signed_link import LinkTarget
from daybreak.domain.identity import Grant
from daybreak.state.stores import Stores
from daybreak.web.api import examples
from daybreak.web.api.docs.page import PAGES
from daybreak.web.api.operation import TAGS
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import (
    CARL,
    CLOSED,
    DREW,
    FOREIGN,
    FREYA,
    GUESS,
    IVAN,
    MAYA,
    NEWT,
    NORTH,
    NOT_EXPORTED,
    PASSWORD,
    TWIN,
    VIC,
    seat_id,
)
from tests.acceptance.service import AUTH, Service, serving
from tests.parts.stored_files import overwrite_stored

# These need a fault of the machine, a slow client or a proxy. Other tests provoke them.
FAULTS = {
    "busy",
    "file_store_fault",
    "files_unavailable",
    "internal_error",
    "request_timeout",
    "second_factor_unreadable",
    "state_unavailable",
}
# Raised by middleware before the route is known, so one path is enough.
ANY_PATH = {"invalid_host", "head_too_large", "uri_too_long", "not_found", "invalid_request"}
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def private_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose limits, accounts and files only these tests use."""
    settings = {"access.login_per_seat": "8/5m", "access.link_rate": "200/1h"}
    with serving(new_installation(Path(tmp_path_factory.mktemp("contract"))), settings=settings, workers=1) as found:
        token = found.token(MAYA, NORTH)
        for path in ("trust", "trust.sig", f"files/{NORTH}/statement.json", f"files/{NORTH}/statement.json.sig"):
            assert found.get(f"/download/v1/{path}", token=token).json()["code"] == "no_statement"
        yield found


def test_commands_of_the_documentation_page_work(private_service: Service, tmp_path: Path) -> None:
    token = private_service.token(MAYA, NORTH)
    pages = "".join(private_service.get(page.path).text for page in PAGES[: 1 + len(TAGS)])
    panels = re.findall(r"<pre><code>(.*?)</code></pre>", pages, re.DOTALL)
    save_token, *commands = [unescape(panel) for panel in panels if panel.startswith(("umask", "curl"))]
    run(save_token, tmp_path, DAYBREAK_TOKEN=token)
    assert (tmp_path / "daybreak-token.txt").stat().st_mode & 0o777 == 0o600
    run(
        save_token.replace("token.txt", "login.txt"),
        tmp_path,
        DAYBREAK_TOKEN=private_service.log_in(CARL).json()["token"],
    )
    link = private_service.link(token, NORTH)
    publish_delta(private_service)
    failed = []
    # The session is needed until the end.
    for command in sorted(commands, key=lambda command: "logout" in command):
        replaced = re.sub(r"'http[^']*/links/[^']*'", f"'{link}'", command).replace(examples.CLIENT_ID, NORTH)
        replaced = replaced.replace("deltas/48/members", "deltas/2/communities").replace("since=45", "since=1")
        replaced = replaced.replace("statements/48.1", "statements/2.1")
        replaced = replaced.replace("maya@example.org", MAYA).replace("quiet lantern over seven rivers", PASSWORD)
        done = run(replaced, tmp_path)
        if done.returncode != 0:
            assert (done.returncode, "curl: (22)" in done.stderr) == (22, True), command
            failed.append(json.loads(done.stdout)["code"])
    assert failed == ["invalid_code", "invalid_code"]
    assert gzip.decompress((tmp_path / "campaigns.csv.gz").read_bytes()).startswith(b'"CAMPAIGN_ID"')


def run(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=90
    )


def test_every_described_response_occurs(private_service: Service) -> None:
    contract = private_service.contract
    assert contract is not None
    for scenario in (
        use_service,
        use_session,
        use_second_factor,
        set_up_second_factor,
        use_files,
        use_link,
        send_wrong_credentials,
        send_wrong_api_tokens,
        send_from_another_address,
        send_wrong_bodies,
        send_wrong_heads,
        exceed_rates,
        send_passwords_where_they_are_refused,
    ):
        scenario(private_service)
    missing = {
        (operation, outcome)
        for operation, outcome in contract.described - contract.occurred
        if outcome not in FAULTS | ANY_PATH and (operation, outcome) != ("getReadiness", "503")
    }
    assert missing == set()
    assert {outcome for _, outcome in contract.occurred} >= ANY_PATH


def send_passwords_where_they_are_refused(service: Service) -> None:
    """Send passwords to another node of the installation, with single sign-on only."""
    settings = {
        "base_url": service.base_url,
        "oidc.issuer": "https://login.example.org",
        "oidc.client_id": "daybreak",
        "oidc.client_secret": "a secret",
        "oidc.password_login": False,
    }
    service.installation.reset_attempts()
    token = service.token(MAYA)
    with serving(service.installation, workers=1, settings=settings) as other:
        assert other.log_in(MAYA).json()["code"] == "password_login_disabled"
        refused = other.request("POST", f"{AUTH}/reauthenticate", token=token, json={"password": PASSWORD})
        assert refused.json()["code"] == "password_login_disabled"
        assert service.contract is not None
        assert other.contract is not None
        service.contract.occurred |= other.contract.occurred


def operations(service: Service) -> dict[str, Call]:
    """Return a function for each operation with a token. It sends a valid request with that token."""
    request, files = service.request, f"/download/v1/files/{NORTH}"

    def sending(method: str, path: str, **options: Any) -> Call:
        return functools.partial(request, method, path, **options)

    return {
        "sendSecondFactor": sending("POST", f"{AUTH}/login/callback/mfa", json={"totp": "000000"}),
        "listContexts": sending("GET", f"{AUTH}/context"),
        "switchContext": sending("PUT", f"{AUTH}/context", json={"context": NORTH}),
        "logOut": sending("DELETE", f"{AUTH}/logout"),
        "reauthenticate": sending("POST", f"{AUTH}/reauthenticate", json={"password": PASSWORD}),
        "beginSecondFactor": sending("POST", f"{AUTH}/second-factor"),
        "confirmSecondFactor": sending("POST", f"{AUTH}/second-factor/confirm", json={"totp": "000000"}),
        "getManifest": sending("GET", files),
        "requestFile": sending("GET", f"{files}/campaigns.csv.gz"),
        "getDeltas": sending("GET", f"{files}/deltas"),
        "requestDelta": sending("GET", f"{files}/deltas/2/communities.delta.csv.gz"),
        "getStatement": sending("GET", f"{files}/statement.json"),
        "getStatementSignature": sending("GET", f"{files}/statement.json.sig"),
        "getKeptStatement": sending("GET", f"{files}/statements/2.1.json"),
        "getKeptStatementSignature": sending("GET", f"{files}/statements/2.1.json.sig"),
        "listErasureReceipts": sending("GET", f"{files}/receipts"),
        "readAuditTrail": sending("GET", f"/download/v1/audit/{NORTH}"),
    }


STATEMENTS = ("statement.json", "statement.json.sig", "statements/2.1.json", "statements/2.1.json.sig")
FILE_OPERATIONS = (
    "getManifest", "requestFile", "getDeltas", "requestDelta", "readAuditTrail", "getStatement",
    "getStatementSignature", "getKeptStatement", "getKeptStatementSignature", "listErasureReceipts",
)  # fmt: skip


def use_service(service: Service) -> None:
    publish_delta(service)
    for path in ("/download/v1/trust", "/download/v1/trust.sig", "/download/v1/trust/revoked"):
        assert service.get(path).status_code == 200
    for path in ("/healthz", "/readyz", "/download/v1/schema", "/openapi.json", "/docs", "/docs/files"):
        assert service.get(path).status_code == 200


def use_session(service: Service) -> None:
    token, calls = service.token(MAYA, NORTH), operations(service)
    for client_id in (FOREIGN, CLOSED):
        service.request("PUT", f"{AUTH}/context", token=token, json={"context": client_id})
    calls["listContexts"](token=token)
    calls["reauthenticate"](token=token)
    service.log_in(IVAN)
    calls["logOut"](token=token)
    for call in calls.values():
        assert call(token=token).json()["code"] in {"session_ended", "invalid_token"}


def use_second_factor(service: Service) -> None:
    send = operations(service)["sendSecondFactor"]
    pending = service.log_in(CARL).json()["token"]
    assert service.answer_second_factor(pending).status_code == 200
    assert send(token=pending).json()["code"] == "session_ended"
    send(token=service.log_in(NEWT).json()["token"])
    pending = service.log_in(TWIN).json()["token"]
    service.installation.change(lambda stores: stores.directory.remove_grants(Grant(seat_id(TWIN), NORTH)))
    assert service.answer_second_factor(pending).json()["code"] == "no_active_account"


def set_up_second_factor(service: Service) -> None:
    token, calls = service.token(DREW, NORTH), operations(service)
    assert calls["confirmSecondFactor"](token=token).json()["code"] == "conflict"
    key = calls["beginSecondFactor"](token=token).json()["data"]["manual_key"]
    seed = base64.b32decode(key + "=" * (-len(key) % 8))
    code = totp.code_at(seed, int(time.time()) // totp.STEP_SECONDS)
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    confirm = functools.partial(service.request, "POST", f"{AUTH}/second-factor/confirm", token=token)
    assert confirm(json={"totp": wrong}).json()["code"] == "invalid_code"
    assert confirm(json={"totp": code}).status_code == 200
    sid, yesterday = claims_of(service, token).sid, datetime.now(UTC) - timedelta(days=1)
    service.installation.change(lambda stores: stores.sessions.mark_reauthenticated(sid, yesterday))
    for name in ("beginSecondFactor", "confirmSecondFactor"):
        assert calls[name](token=token).json()["code"] == "reauthentication_required"


def use_files(service: Service) -> None:
    publish_delta(service)
    token, calls = service.token(MAYA, NORTH), operations(service)
    for name in FILE_OPERATIONS:
        assert calls[name](token=token).status_code in {200, 302}
    feed = calls["getDeltas"](token=token)
    assert feed.json()["data"]["entries"][0]["resources"]["communities"]["state"] == "changed"
    assert calls["getDeltas"](token=token, headers={"If-None-Match": feed.headers["ETag"]}).status_code == 304
    for query, code, detail in (
        ("99", "chain_closed", "There are no deltas from version 99"),
        ("x", "invalid_request", "The version is not a whole number."),
        ("9" * 20, "invalid_request", "The version is too large."),
    ):
        problem = service.get(f"/download/v1/files/{NORTH}/deltas?since={query}", token=token).json()
        assert problem["code"] == code
        assert problem["detail"].startswith(detail)
    for path, code in (("9/communities.delta.csv.gz", "no_delta"), ("2/x.delta.csv.gz", "unknown_file"),
                       ("x/communities.delta.csv.gz", "no_delta")):  # fmt: skip
        assert service.get(f"/download/v1/files/{NORTH}/deltas/{path}", token=token).json()["code"] == code
    service.get(f"/download/v1/audit/{NORTH}?since=soon", token=token)
    service.get(f"/download/v1/files/%20{NORTH}/campaigns.csv.gz", token=token)
    other_token = service.switch_account(token, NOT_EXPORTED)
    for file in ("", "/campaigns.csv.gz", "/deltas"):
        found = service.get(f"/download/v1/files/{NOT_EXPORTED}{file}", token=other_token)
        assert found.json()["code"] == "snapshot_not_ready"
    for name in STATEMENTS:
        found = service.get(f"/download/v1/files/{NOT_EXPORTED}/{name}", token=other_token)
        is_current = "/" not in name
        assert found.json()["code"] == ("snapshot_not_ready" if is_current else "no_statement")
        assert ("Retry-After" in found.headers) == is_current
    damage_statements(service, token)
    foreign_token = service.token(FREYA, FOREIGN)
    for name in FILE_OPERATIONS:
        assert calls[name](token=other_token).json()["code"] == "wrong_context"
        assert calls[name](token=foreign_token).json()["code"] == "not_your_account"


def damage_statements(service: Service, token: str) -> None:
    for pack in service.installation.files_folder.glob("snapshots/*/statements/*"):
        content = pack.read_bytes()
        pack.write_bytes(b"damaged")
        for name in STATEMENTS:
            service.get(f"/download/v1/files/{NORTH}/{name}", token=token)
        pack.write_bytes(content)


def publish_delta(service: Service) -> None:
    service.installation.publish_snapshot(seed=1, with_delta=True, with_statements=True)


def use_link(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH)
    whole = service.get(link)
    for headers in (
        {"Range": "bytes=0-9"},
        {"Range": "bytes=0-1,5-6"},
        {"Range": "bytes=99999999-"},
        {"If-None-Match": whole.headers["ETag"]},
        {"If-Match": '"another"'},
        {"Accept": "text/csv", "Accept-Encoding": "gzip"},
    ):
        assert service.request("HEAD", link, headers=headers).status_code in {200, 304, 412}
        service.get(link, headers=headers)
    service.get(f"{link}0")
    service.get(link.replace("campaigns", "passwords"))
    snapshot = link.split("/")[7]
    now = int(time.time())
    unknown = str(uuid.uuid4())
    for snapshot_id, subject, expires, code in (
        (snapshot, "campaigns", now - 1, "link_expired"),
        (unknown, "campaigns", now + 60, "file_gone"),
        (unknown, "campaigns.delta", now + 60, "no_delta"),
    ):
        assert service.get(signed(service, token, snapshot_id, subject, expires)).json()["code"] == code
    file = service.installation.read(lambda stores: stores.snapshots.file(snapshot, NORTH, "campaigns", "csv"))
    assert file is not None
    overwrite_stored(service.installation.files_folder, file.stored.key, bytes(9))
    assert service.get(link).json()["code"] == "file_damaged"
    operations(service)["logOut"](token=token)
    assert service.get(link).json()["code"] == "link_revoked"


def send_wrong_credentials(service: Service) -> None:
    session, calls = service.token(MAYA, NORTH), operations(service)
    pending = service.log_in(CARL).json()["token"]
    api_token, _ = service.installation.create_token(MAYA, NORTH)
    for name, call in calls.items():
        assert call().json()["code"] == "missing_token"
        assert call(token="x").json()["code"] == "invalid_token"
        past = expired(service, pending) if name == "sendSecondFactor" else expired(service, session)
        assert call(token=past).json()["code"] == "token_expired"
        if name != "sendSecondFactor":
            assert call(token=pending).json()["code"] == "second_factor_required"
            if name not in FILE_OPERATIONS:
                assert call(token=api_token).json()["code"] == "session_required"


def send_wrong_api_tokens(service: Service) -> None:
    calls = operations(service)
    revoked, revoked_id = service.installation.create_token(MAYA, NORTH)
    service.installation.change(lambda stores: stores.api_tokens.revoke(revoked_id, datetime.now(UTC), "test"))
    without_export, _ = service.installation.create_token(VIC, NORTH)
    for token, code in (
        (revoked, "token_revoked"),
        (without_export, "data_export_required"),
        (service.installation.create_token(MAYA, CLOSED)[0], "account_inactive"),
        (service.installation.create_token(MAYA, NOT_EXPORTED)[0], "api_tokens_disabled"),
    ):
        for name in FILE_OPERATIONS:
            assert calls[name](token=token).json()["code"] == code
    without_api = Grant(seat_id(VIC), NORTH, ("owner",), data_export=True, async_rest_api=False)
    service.installation.change(lambda stores: stores.directory.put_grants(without_api))
    for name in FILE_OPERATIONS:
        assert calls[name](token=without_export).json()["code"] == "async_rest_api_required"


def send_from_another_address(service: Service) -> None:
    token, token_id = service.installation.create_token(MAYA, NORTH)
    link = service.link(token, NORTH)
    service.installation.change(lambda stores: stores.api_tokens.set_allowed_networks(token_id, ["203.0.113.0/24"]))
    refused = [call(token=token) for name, call in operations(service).items() if name in FILE_OPERATIONS]
    assert {found.json()["code"] for found in [*refused, service.get(link)]} == {"address_not_allowed"}


def send_wrong_bodies(service: Service) -> None:
    """Omit each described field in turn. The error names it, so the operation reads the described body."""
    document = service.get("/openapi.json").json()
    schemas, tokens = document["components"]["schemas"], {"pending_login": service.log_in(CARL).json()["token"]}
    tokens["session"] = service.token(MAYA, NORTH)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation:
                continue
            send = functools.partial(service.request, method.upper(), path)
            if operation["security"]:
                send = functools.partial(send, token=tokens[next(iter(operation["security"][0]))])
            content = operation["requestBody"]["content"]["application/json"]
            for name in schemas[content["schema"]["$ref"].rpartition("/")[2]]["properties"]:
                body = {field: value for field, value in content["example"].items() if field != name}
                assert send(json=body).json()["errors"][0]["pointer"] == f"/{name}"
            assert send(data=b"x").status_code == 415
            large = {"Content-Type": "application/json"}
            assert send(data=b" " * 20_000, headers=large).status_code == 413


def send_wrong_heads(service: Service) -> None:
    service.get("/healthz", headers={"Host": "a b"})
    service.get("/healthz?" + "a" * 9000)
    service.get("/healthz?%00")
    service.get("/healthz", headers={f"X-{number}": "a" * 7000 for number in range(10)})


def exceed_rates(service: Service) -> None:
    calls = operations(service)
    session = service.token(MAYA, NORTH)
    enrolling = service.token(FREYA, FOREIGN)
    pending = service.log_in(GUESS).json()["token"]

    def until_limited(send: Call) -> None:
        statuses = [send().status_code for _ in range(9)]
        assert set(statuses) == {401, 429}
        assert statuses[-1] == 429

    until_limited(lambda: service.log_in("flood@example.org"))
    until_limited(lambda: service.request("POST", f"{AUTH}/reauthenticate", token=session, json={"password": "x"}))
    until_limited(lambda: calls["sendSecondFactor"](token=pending))
    (rule,) = throttle.change_rules(seat_id=seat_id(MAYA), accounts=1)
    now = datetime.now(UTC)

    def exhaust(stores: Stores) -> None:
        while stores.throttle.count([rule], now) is None:
            pass

    service.installation.change(exhaust)
    assert calls["switchContext"](token=session).status_code == 429
    calls["beginSecondFactor"](token=enrolling)
    until_limited(lambda: calls["confirmSecondFactor"](token=enrolling))
    files = service.token(FREYA, FOREIGN)
    link = service.link(files, FOREIGN)

    def until_refused(send: Call, allowed: int) -> None:
        statuses = [send().status_code for _ in range(202)]
        assert set(statuses) <= {allowed, 429}
        assert statuses[-1] == 429

    until_refused(lambda: service.request_file(files, FOREIGN), 302)
    until_refused(lambda: service.request_file(files, FOREIGN, "deltas/2/communities.delta.csv.gz"), 404)
    until_refused(lambda: service.get(link), 200)
    for name in (*STATEMENTS, "receipts"):
        assert service.get(f"/download/v1/files/{FOREIGN}/{name}", token=files).status_code == 429
    until_refused(lambda: service.get(f"/download/v1/audit/{FOREIGN}", token=files), 200)


def claims_of(service: Service, token: str) -> Claims:
    ring = keyring.load(service.installation.keyring_file)
    return session_jwt.decode(
        token, "session+jwt", "mfa+jwt", keyring=ring, issuer=service.base_url, now_seconds=time.time()
    )


def expired(service: Service, token: str) -> str:
    """Return the same token with an expiry in the past."""
    past = replace(claims_of(service, token), expires_at=int(time.time()) - 1)
    ring = keyring.load(service.installation.keyring_file)
    kind: TokenType = "session+jwt" if past.client_id else "mfa+jwt"
    return session_jwt.encode(past, typ=kind, keyring=ring, issuer=service.base_url)


def signed(service: Service, token: str, snapshot_id: str, subject: str, expires: int) -> str:
    """Return a link with a valid signature."""
    target = LinkTarget(NORTH, snapshot_id, subject, f"session:{claims_of(service, token).sid}", expires)
    query = signed_link.sign(target, keyring=keyring.load(service.installation.keyring_file), random=os.urandom)
    return f"/download/v1/links/{NORTH}/{snapshot_id}/{subject}.csv.gz?{query}"
