"""Keys that rotate under load, and secrets that are found nowhere."""

from __future__ import annotations

import base64
import re
import subprocess
import threading
from pathlib import Path

import pytest

from daybreak.credentials import keyring
from daybreak.credentials.keyring import PURPOSES
from tests.acceptance.service import AUTH, DAYBREAKD, PATIENCE_SECONDS, Service, serving
from tests.acceptance.world import CARL, MAYA, NORTH, PASSWORD, SEED, VAULT, World, totp_code


@pytest.fixture
def own(make_world: object) -> World:
    """A world of the test's own: its keys and logs are looked into."""
    assert callable(make_world)
    world = make_world()
    assert isinstance(world, World)
    return world


def test_keys_rotate_and_no_request_fails(own: World) -> None:
    with serving(own, workers=2) as service:
        tokens = [service.token(MAYA, NORTH), own.mint_token(MAYA, NORTH)[0]]
        links = [service.link(token, NORTH) for token in tokens]
        rotated = threading.Event()
        statuses: list[int] = []

        def use(number: int) -> None:
            # On, and once more after the last rotation.
            last = False
            while not last:
                last = rotated.is_set()
                link = service.link(tokens[number % 2], NORTH)
                statuses.append(service.get(link).status_code)
                statuses.append(service.get(links[number % 2]).status_code)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                _daybreakd(own, "keys", "rotate")
                # What the key that signs now has signed is read by every worker.
                fresh = service.token(MAYA, NORTH)
                for _ in range(10):
                    assert service.ask(fresh, NORTH).status_code == 302
        finally:
            rotated.set()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
        assert len(statuses) >= 8
        assert set(statuses) == {200}
        # A seed that was sealed under the first key is still read, now under the last one.
        waiting = service.log_in(CARL).json()["token"]
        assert service.answer_second_factor(waiting, totp_code(ahead=1)).status_code == 200
    states = [key.state for key in keyring.load(own.keyring_file).keys]
    assert states == ["verify_only", "verify_only", "signing", "next"]


def test_no_secret_is_in_the_log_the_database_or_an_error(own: World) -> None:
    mistyped = "a password that was mistyped"
    seen: list[str] = []
    with serving(own, workers=2) as service:
        secrets = _use_everything(service, mistyped, seen)
        log = service.program.log()
    stored = b"".join(path.read_bytes() for path in own.folder.glob("state.db*"))
    ring = keyring.load(own.keyring_file)
    for key in ring.keys:
        secrets |= {key.secret.hex(), base64.b64encode(key.secret).decode()}
        secrets |= {(ring.derive(key.kid, purpose) or b"").hex() for purpose in PURPOSES}
    assert "" not in secrets
    assert len(secrets) > 20
    found = {
        (secret[:12], place)
        for secret in secrets
        for place, content in (("log", log), ("answers", "\n".join(seen)))
        if secret in content
    }
    found |= {(secret[:12], "database") for secret in secrets if secret.encode() in stored}
    assert found == set()
    assert SEED not in stored
    assert re.search(r"signature=|expires=\d", log) is None, "query strings are not logged"
    # The search finds what is there: hosts, paths and addresses of the same requests.
    assert f"/download/v1/files/{NORTH}" in log
    assert MAYA.encode() in stored


def _use_everything(service: Service, mistyped: str, seen: list[str]) -> set[str]:
    """Uses every kind of secret, well and badly; the secrets. Error bodies go into `seen`."""
    secrets = {PASSWORD, mistyped, base64.b32encode(SEED).decode(), SEED.hex()}
    # People type the password where the email belongs.
    for email, password in ((MAYA, mistyped), (PASSWORD, PASSWORD), (PASSWORD + "@x", mistyped)):
        refused = service.log_in(email, password=password)
        assert refused.status_code == 401
        seen.append(refused.text)
    session, other = service.token(MAYA, NORTH), service.token(MAYA)
    api, _ = service.world.mint_token(MAYA, NORTH)
    waiting = service.log_in(CARL).json()["token"]
    code = totp_code(ahead=1)
    wrong = f"{(int(code) + 500_001) % 10**6:06d}"
    seen.append(service.answer_second_factor(waiting, wrong).text)
    strong = service.answer_second_factor(waiting, code).json()["token"]
    link = service.link(session, NORTH)
    assert service.get(link).status_code == 200
    changed = (link[:-1], link.replace("campaigns", "members"), link + "&x=1")
    seen.extend(service.get(text).text for text in changed)
    # A token in the address is nobody's idea, and must not be logged either.
    seen.append(service.get(f"/download/v1/files/{NORTH}/campaigns.csv.gz?token={api}").text)
    seen.append(service.ask(api[:-1] + "~", NORTH).text)
    seen.append(service.ask(session, VAULT).text)
    seen.append(service.ask(strong + "x", VAULT).text)
    seen.append(service.request("PUT", f"{AUTH}/context", token=session, json={"context": api}).text)
    assert service.request("DELETE", f"{AUTH}/logout", token=other).status_code == 204
    seen.append(service.ask(other, NORTH).text)
    signature = re.search(r"signature=([0-9a-f]{64})", link)
    assert signature is not None
    return secrets | {session, other, waiting, strong, api, signature[1], f'"{code}"', f'"{wrong}"'}


def _daybreakd(world: World, *arguments: str) -> None:
    file: Path = world.folder / "daybreak.toml"
    done = subprocess.run(
        [*DAYBREAKD, *arguments, "--config", file],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS * 2,
        cwd=world.folder,
    )
    assert done.returncode == 0, done.stderr
