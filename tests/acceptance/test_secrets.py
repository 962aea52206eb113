"""Key rotation under load, and searches for secrets in logs, responses and storage."""

import base64
import hashlib
import http.client
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qsl

import psycopg
import pytest
from psycopg import sql

from daybreak.credentials import keyring, totp
from daybreak.credentials.keyring import Purpose
from daybreak.state.database import sqlite_path
from tests.acceptance.browser import form_token, signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import CARL, MAYA, NORTH, PASSWORD, SEED, VAULT, VIC, Installation, totp_code
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.parts.ports import free_port
from tests.parts.variants import one_of
from tests.parts.warm import daybreakd, printed_by


@pytest.fixture
def installation(make_installation: Callable[[], Installation]) -> Installation:
    """Return an installation whose keys and logs the test reads."""
    return make_installation()


@pytest.fixture(params=one_of("postgresql", "sqlite"))
def searched_installation(request: pytest.FixtureRequest, tmp_path: Path) -> Installation:
    """Return an installation on each state database, for a search of its content."""
    return new_installation(tmp_path, None if request.param == "sqlite" else request.getfixturevalue("postgresql_url"))


def test_key_rotation_does_not_fail_requests(installation: Installation) -> None:
    with serving(installation, workers=2) as service:
        tokens = [service.token(MAYA, NORTH), installation.create_token(MAYA, NORTH)[0]]
        links = [service.link(token, NORTH) for token in tokens]
        rotated = threading.Event()
        statuses: list[int] = []

        def use(number: int) -> None:
            # Until the last rotation, and once after it.
            last = False
            while not last:
                last = rotated.wait(0.1)
                link = service.link(tokens[number % 2], NORTH)
                statuses.append(service.get(link).status_code)
                statuses.append(service.get(links[number % 2]).status_code)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                printed_by(installation.folder, "keys", "rotate")
                # Every worker accepts a token of the new signing key.
                fresh = service.token(MAYA, NORTH)
                for _ in range(10):
                    assert service.request_file(fresh, NORTH).status_code == 302
        finally:
            rotated.set()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
        assert len(statuses) >= 8
        assert set(statuses) == {200}
        # A seed that was encrypted with the first key is now encrypted with the last one.
        pending = service.log_in(CARL).json()["token"]
        assert service.answer_second_factor(pending, totp_code(ahead=1)).status_code == 200
    states = [key.state for key in keyring.load(installation.keyring_file).keys]
    assert states == ["verify_only", "verify_only", "signing", "next"]


@pytest.mark.release
def test_replaced_keyring_ends_all_signatures(installation: Installation) -> None:
    """A leaked keyring is replaced while the service runs. Workers do not accept tokens that they accepted before."""
    with serving(installation, workers=2) as service:
        session, pending = service.token(MAYA, NORTH), service.log_in(CARL).json()["token"]
        secret, _ = installation.create_token(MAYA, NORTH)
        link = service.link(session, NORTH)
        with signed_in(service, MAYA) as browser:
            cookies = "; ".join(f"{name}={value}" for name, value in browser.session.cookies.items())

        def statuses() -> list[tuple[int, ...]]:
            """Send each credential often enough to reach both workers. Return the statuses."""
            return [
                (
                    service.request_file(session, NORTH).status_code,
                    service.request("POST", f"{AUTH}/login/callback/mfa", token=pending, json={}).status_code,
                    service.get(link).status_code,
                    service.get(f"/dashboard/{NORTH}/files", headers={"Cookie": cookies}).status_code,
                    service.request_file(secret, NORTH).status_code,
                )
                for _ in range(6)
            ]

        assert set(statuses()) == {(302, 400, 200, 200, 302)}
        new = installation.keyring_file.with_name("new.json")
        keyring.create(new, datetime.now(UTC), os.urandom)
        new.replace(installation.keyring_file)
        assert set(statuses()) == {(401, 401, 403, 303, 302)}, "an API token is not signed"
        fresh = service.token(MAYA, NORTH)
        assert {service.request_file(fresh, NORTH).status_code for _ in range(6)} == {302}


def test_no_secret_is_in_log_database_or_errors(searched_installation: Installation) -> None:
    mistyped = "a password that was mistyped"
    seen: list[str] = []
    with serving(searched_installation, workers=2) as service:
        secrets = _use_everything(service, mistyped, seen)
        seen += [service.get(path).text for path in ("/docs", "/openapi.json", "/readyz")]
        seen.append(service.metrics())
        log = service.program.log()
    stored = _dump(searched_installation)
    ring = keyring.load(searched_installation.keyring_file)
    for key in ring.keys:
        secrets |= {key.secret.hex(), base64.b64encode(key.secret).decode()}
        secrets |= {(ring.derive(key.kid, purpose) or b"").hex() for purpose in get_args(Purpose)}
    assert "" not in secrets
    assert len(secrets) > 40
    places = (("log", log.encode()), ("answers", "\n".join(seen).encode()), ("stored", stored))
    found = {(secret[:12], place) for secret in secrets for place, content in places if secret.encode() in content}
    assert found == set()
    assert SEED not in stored
    assert re.search(r"signature=|expires=\d", log) is None, "query strings are not logged"
    # The search itself works: it finds paths and emails of the same requests.
    assert f"/download/v1/files/{NORTH}" in log
    assert MAYA.encode() in stored
    hashes = set(re.findall(rb"\$argon2id\$v=19\$m=19456,t=2,p=1\$", stored))
    assert len(hashes) == 1, "passwords are stored as Argon2 hashes"


@pytest.mark.parametrize(
    "searched_installation",
    # The secrets are removed before a database is involved.
    one_of("sqlite", "postgresql"),
    indirect=True,
)
def test_misplaced_secrets_are_recorded_nowhere(searched_installation: Installation) -> None:
    """Clients put secrets into paths, headers and names. A proxy passes on the request id that it received."""
    seen: list[str] = []
    with serving(searched_installation, workers=1, settings={"trusted_proxies": ["127.0.0.1"]}) as service:
        session, api = service.token(MAYA, NORTH), searched_installation.create_token(MAYA, NORTH)[0]
        query = service.link(session, NORTH).partition("?")[2]
        with signed_in(service, MAYA) as browser:
            cookie = next(value for name, value in browser.session.cookies.items() if "session" in name)
        recovery = totp.new_recovery_codes(os.urandom)[0]
        parts = {api, session, dict(parse_qsl(query))["signature"], cookie.rpartition(".")[2], recovery}
        for secret in (api, session, query, cookie, recovery):
            for number, text in enumerate((secret, _encode(secret), _encode(_encode(secret)))):
                seen += _misplace(service, text, session, marker=f"{number}-place")
        refused = _run(searched_installation.folder, *_new_token(name=api))
        assert refused.returncode == 1
        assert "looks like a secret" in refused.stderr
        assert _run(searched_installation.folder, *_new_token(name="nightly")).returncode == 0
        seen += [refused.stderr, service.metrics()]
        log = service.program.log()
    places = {"log": log.encode(), "answers": "\n".join(seen).encode(), "stored": _dump(searched_installation)}
    forms = {form for part in parts for form in (part, _encode(part), _encode(_encode(part)))}
    found = {(form[:12], place) for form in forms for place, content in places.items() if form.encode() in content}
    assert found == set()
    for place in ("log", "stored"):
        assert b"2-place" in places[place], f"the {place} was searched"
        assert b"[redacted]" in places[place]


def _encode(text: str) -> str:
    """Percent-encode every character, which client libraries undo for letters."""
    return "".join(f"%{each:02X}" for each in text.encode())


def _new_token(name: str) -> list[str]:
    return ["token", "create", "--seat", MAYA, "--account", NORTH, "--name", name]


def _misplace(service: Service, text: str, token: str, *, marker: str) -> list[str]:
    """Send requests with a text in every place of their heads. Return the responses."""
    files = f"/download/v1/files/{NORTH}"
    targets = (
        f"/{text}", f"{files}/{text}", f"/x?{text}", f"/x%3F{text}", f"/x%253F{text}", f"/dashboard/{text}",
        f"{files}/campaigns.csv.gz?{text}", f"/download/v1/links/{NORTH}/{NORTH}/campaigns.csv.gz%3F{text}",
    )  # fmt: skip
    headers = {
        "Authorization": f"Bearer {token}",
        "User-Agent": f"{marker} {text}"[:4000],
        "Referer": f"http://example.org/?{text}",
        "X-Request-Id": text,
        "X-Device-Id": text,
        "X-Forwarded-For": "192.0.2.7",
    }
    answers = []
    for target in targets:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)
        with closing(connection):
            connection.request("GET", target[:8000], headers=headers)
            answer = connection.getresponse()
            answers.append(str(answer.headers.get("X-Request-Id")) + answer.read().decode())
    logged_in = service.log_in(MAYA, headers={key: value for key, value in headers.items() if key != "Authorization"})
    assert logged_in.status_code == 200
    return answers


def _dump(installation: Installation) -> bytes:
    """Return the content of the folder and the database, without the keyring."""
    contents = [
        path.read_bytes()
        for path in installation.folder.rglob("*")
        if path.is_file() and path != installation.keyring_file
    ]
    assert contents
    if sqlite_path(installation.state_url) is None:
        with psycopg.connect(installation.state_url) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            for (table,) in tables:
                rows = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table)))
                contents += [row.encode() for (row,) in rows]
    return b"\n".join(contents)


def _use_everything(service: Service, mistyped: str, seen: list[str]) -> set[str]:
    """Use valid and invalid secrets of every kind. Return the secrets; add error bodies to `seen`."""
    secrets = {PASSWORD, mistyped, base64.b32encode(SEED).decode(), SEED.hex()}
    # Users sometimes type their password into the email field.
    for email, password in ((MAYA, mistyped), (PASSWORD, PASSWORD), (PASSWORD + "@x", mistyped)):
        refused = service.log_in(email, password=password)
        assert refused.status_code == 401
        seen.append(refused.text)
    session, other = service.token(MAYA, NORTH), service.token(MAYA)
    api, _ = service.installation.create_token(MAYA, NORTH)
    pending = service.log_in(CARL).json()["token"]
    code = totp_code(ahead=1)
    wrong = f"{(int(code) + 500_001) % 10**6:06d}"
    seen.append(service.answer_second_factor(pending, wrong).text)
    completed = service.answer_second_factor(pending, code).json()["token"]
    link = service.link(session, NORTH)
    assert service.get(link).status_code == 200
    changed = (link[:-1], link.replace("campaigns", "members"), link + "&x=1")
    seen.extend(service.get(text).text for text in changed)
    # A token in the URL must not be logged either.
    seen.append(service.get(f"/download/v1/files/{NORTH}/campaigns.csv.gz?token={api}").text)
    seen.extend(service.request_file(session, secret).text for secret in (api, other))
    seen.append(service.request_file(api[:-1] + "~", NORTH).text)
    seen.append(service.request_file(session, VAULT).text)
    seen.append(service.request_file(completed + "x", VAULT).text)
    seen.append(service.request("PUT", f"{AUTH}/context", token=session, json={"context": api}).text)
    assert service.request("DELETE", f"{AUTH}/logout", token=other).status_code == 204
    seen.append(service.request_file(other, NORTH).text)
    signature = re.search(r"signature=([0-9a-f]{64})", link)
    assert signature is not None
    secrets |= {session, other, pending, completed, api, signature[1], f'"{code}"', f'"{wrong}"'}
    return secrets | _enrol(service) | _sign_in(service)


def _enrol(service: Service) -> set[str]:
    """Enrol a second factor. Return its seed, the code that confirmed it and the recovery codes."""
    token = service.token(VIC)
    shown = service.request("POST", f"{AUTH}/second-factor", token=token).json()["data"]
    seed = base64.b32decode(shown["manual_key"])
    code = totp.code_at(seed, int(time.time()) // totp.STEP_SECONDS)
    confirmed = service.request("POST", f"{AUTH}/second-factor/confirm", token=token, json={"totp": code})
    assert confirmed.status_code == 200, confirmed.text
    codes = confirmed.json()["data"]["recovery_codes"]
    assert len(codes) == 10
    return {token, shown["manual_key"], seed.hex(), f'"{code}"', *codes, *(each.replace("-", "") for each in codes)}


def _sign_in(service: Service) -> set[str]:
    """Sign in to the dashboard. Return its cookies and the CSRF token."""
    with signed_in(service, MAYA) as browser:
        token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
        found = {token, *(value for value in browser.session.cookies.values() if value)}
    assert len(found) > 1
    return found


@pytest.mark.parametrize(
    ("secret", "mode", "message"),
    [
        pytest.param(None, 0o644, "is readable by other users", id="world-readable"),
        pytest.param(None, 0o640, "is readable by other users", id="group-readable"),
        # Pseudo-random bytes, so that each is refused for one reason only.
        pytest.param(hashlib.sha512(b"short").digest()[:31], 0o600, "has 31 bytes", id="short"),
        pytest.param(b"correct horse battery staple, thrice", 0o600, "is text", id="text"),
        pytest.param(hashlib.sha512(b"again").digest()[:11] * 3, 0o600, "is a repetition", id="repeated"),
        pytest.param(bytes(range(100, 164)), 0o600, "is a sequence", id="sequence"),
        # From published JSON Web Signature test vectors.
        pytest.param(
            base64.urlsafe_b64decode("-ebuDNsVZ2iJtoZ-akfXTSCt4UO2cruLCsbWlBinggE="),
            0o600,
            "is a published example",
            id="published",
        ),
        # RFC 7515, appendix A.1.
        pytest.param(
            base64.urlsafe_b64decode(
                "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow=="
            ),
            0o600,
            "is a published example",
            id="published in RFC 7515",
        ),
    ],
)
def test_weak_or_readable_keyring_prevents_the_start(
    tmp_path: Path, secret: bytes | None, mode: int, message: str
) -> None:
    file = tmp_path / "keyring.json"
    keyring.create(file, datetime.now(UTC), os.urandom)
    if secret is not None:
        document = json.loads(file.read_text())
        document["keys"][0]["secret"] = secret.hex()
        file.write_text(json.dumps(document))
    file.chmod(mode)
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "daybreak.toml").write_text(
        f'base_url = "http://{address}"\nlisten = "{address}"\nsource.location = "platform.duckdb"\n'
    )
    done = _run(tmp_path, "serve")
    assert done.returncode > 0
    assert message in done.stderr
    assert secret is None or secret.hex() not in done.stderr


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return daybreakd(*arguments, "--config", folder / "daybreak.toml", folder=folder)
