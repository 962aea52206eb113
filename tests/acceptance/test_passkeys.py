"""Responses of passkeys that no browser would send, over HTTP."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import Passkey
from daybreak.state.stores import Stores
from tests.acceptance.browser import SECOND_FACTOR, Browser, form_token, signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import CARL, NORTH, TWIN, seat_id, totp_code
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.software_authenticator import ATTESTED, USER_PRESENT, SoftwareAuthenticator, encode
from tests.parts.variants import one_of

ORIGIN = "http://localhost:8400"
SECURITY = f"/dashboard/{NORTH}/settings/security"


# For tests of what the state database decides. The others depend on the response alone.
each_database = pytest.mark.parametrize("service", one_of("sqlite", "postgresql"), indirect=True)


@pytest.fixture(scope="module", params=["sqlite"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose public address has a host name, which passkeys need."""
    url = None
    if request.param == "postgresql":
        server: PostgreSQLServer = request.getfixturevalue("postgresql_server")
        url = server.url(server.fresh_database())
    installation = new_installation(tmp_path_factory.mktemp("passkeys"), url)
    with serving(installation, settings={"base_url": ORIGIN, "access.second_factor_per_seat": ["1000/5m"]}) as found:
        yield found


def events(service: Service, action: str, email: str = CARL) -> list[AuditEvent]:
    """Return the seat's events of an action, oldest first."""
    return service.installation.events(seat_id=seat_id(email), action=action)


def register(service: Service, email: str = CARL) -> SoftwareAuthenticator:
    """Store a passkey of a new authenticator for the seat."""
    authenticator = SoftwareAuthenticator(ORIGIN, "localhost")
    passkey = Passkey(
        encode(authenticator.credential_id), seat_id(email), encode(authenticator.public_key), 0, "key",
        datetime.now(UTC),
    )  # fmt: skip
    service.installation.change(lambda stores: stores.passkeys.add(passkey))
    return authenticator


class Login:
    """A login in a browser that waits for its second factor."""

    def __init__(self, service: Service, email: str = CARL) -> None:
        self.browser = signed_in(service, email, SECOND_FACTOR)
        page = self.browser.get(SECOND_FACTOR)
        assert "Use a passkey" in page.text
        self._token = form_token(page)

    def options(self) -> dict[str, Any]:
        answer = self._post("/options")
        assert answer.status_code == 200, answer.text[:500]
        found: dict[str, Any] = answer.json()
        return found

    def challenge(self) -> str:
        challenge: str = self.options()["challenge"]
        return challenge

    def finish(self, response: str) -> requests.Response:
        return self._post("", response=response)

    def _post(self, path: str, **fields: str) -> requests.Response:
        return post(self.browser, f"{SECOND_FACTOR}/passkey{path}", csrf=self._token, **fields)


def post(browser: Browser, path: str, **fields: str) -> requests.Response:
    """Send a form with the cookies of a browser, which keeps them: it may send the same again."""
    cookies, address = browser.session.cookies.get_dict(), browser.address + path
    return requests.post(address, data=fields, cookies=cookies, allow_redirects=False, timeout=PATIENCE_SECONDS)


def is_signed_in(answer: requests.Response) -> bool:
    return answer.status_code == 303 and answer.headers["Location"].endswith("/files")


def test_passkey_completes_a_login(service: Service) -> None:
    authenticator, login = register(service), Login(service)
    options = login.options()
    assert options["rpId"] == "localhost"
    assert encode(authenticator.credential_id) in [each["id"] for each in options["allowCredentials"]]
    assert is_signed_in(login.finish(authenticator.get(options["challenge"])))
    (passkey,) = [
        each
        for each in service.installation.read(lambda stores: stores.passkeys.list_for(seat_id(CARL)))
        if each.credential_id == encode(authenticator.credential_id)
    ]
    assert passkey.sign_count == 1
    assert passkey.last_used_at is not None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"origin": "https://localhost:8400"}, id="scheme"),
        pytest.param({"origin": "http://localhost"}, id="port"),
        pytest.param({"origin": "http://evil.example"}, id="other origin"),
        pytest.param({"rp_id": "evil.example"}, id="relying party"),
        pytest.param({"type": "webauthn.create"}, id="type"),
        pytest.param({"challenge": encode(bytes(32))}, id="challenge"),
        pytest.param({"challenge": ""}, id="empty challenge"),
        pytest.param({"flags": 0}, id="no user presence"),
        pytest.param({"crossOrigin": True}, id="frame of another site"),
        pytest.param({"user_handle": encode(bytes(16))}, id="user handle"),
    ],
)
def test_response_for_something_else_is_refused(changes: dict[str, Any], service: Service) -> None:
    authenticator, login = register(service), Login(service)
    refused = login.finish(authenticator.get(login.challenge(), **changes))
    assert refused.status_code == 401
    assert "The passkey was not accepted." in refused.text
    assert events(service, "second_factor")[-1].result == "invalid_passkey"
    assert is_signed_in(login.finish(authenticator.get(login.challenge())))


def test_other_keys_are_refused(service: Service) -> None:
    authenticator, login = register(service), Login(service)
    foreign = register(service, TWIN)
    assert login.finish(foreign.get(login.challenge())).status_code == 401
    unknown = SoftwareAuthenticator(ORIGIN, "localhost")
    assert login.finish(unknown.get(login.challenge())).status_code == 401
    imitation = SoftwareAuthenticator(ORIGIN, "localhost", credential_id=authenticator.credential_id)
    assert login.finish(imitation.get(login.challenge())).status_code == 401
    assert is_signed_in(login.finish(authenticator.get(login.challenge())))


@each_database
def test_removed_passkey_is_refused(service: Service) -> None:
    authenticator, other, login = register(service), register(service), Login(service)
    challenge = login.challenge()

    def remove(stores: Stores) -> None:
        passkey = stores.passkeys.find(encode(authenticator.credential_id), seat_id(CARL))
        assert passkey is not None
        stores.passkeys.remove(passkey)

    service.installation.change(remove)
    assert login.finish(authenticator.get(challenge)).status_code == 401
    assert is_signed_in(login.finish(other.get(login.challenge())))


def test_response_is_accepted_once(service: Service) -> None:
    authenticator, login = register(service), Login(service)
    response = authenticator.get(login.challenge())
    second = Login(service)
    # The challenge of another login.
    assert second.finish(response).status_code == 401
    assert is_signed_in(login.finish(response))
    again = login.finish(response)
    assert not is_signed_in(again)
    assert second.finish(response).status_code == 401
    second.challenge()
    assert second.finish(response).status_code == 401


def test_challenge_is_used_up_by_a_failure(service: Service) -> None:
    authenticator, login = register(service), Login(service)
    challenge = login.challenge()
    assert login.finish(authenticator.get(challenge, flags=0)).status_code == 401
    assert login.finish(authenticator.get(challenge)).status_code == 401
    older, newer = login.challenge(), login.challenge()
    assert login.finish(authenticator.get(older)).status_code == 401
    assert login.finish(authenticator.get(newer)).status_code == 401
    assert is_signed_in(login.finish(authenticator.get(login.challenge())))


@each_database
def test_counter_that_does_not_increase_is_refused(service: Service) -> None:
    authenticator, login = register(service), Login(service)
    assert is_signed_in(login.finish(authenticator.get(login.challenge(), sign_count=7)))
    for count in (7, 6, 0):
        login = Login(service)
        refused = login.finish(authenticator.get(login.challenge(), sign_count=count))
        assert refused.status_code == 401
        assert "a copy of it may exist" in refused.text
        assert events(service, "second_factor")[-1].result == "passkey_cloned"
    assert is_signed_in(login.finish(authenticator.get(login.challenge(), sign_count=8)))


def test_authenticator_without_a_counter_is_accepted(service: Service) -> None:
    authenticator = register(service)
    for _ in range(2):
        login = Login(service)
        assert is_signed_in(login.finish(authenticator.get(login.challenge(), sign_count=0)))


@pytest.mark.parametrize(
    "response",
    [
        "", "{}", "[]", "null", "7", '{"id":1}', "[" * 5000, '{"id":' * 1000, '{"id":"\\ud800"}', "\ufffd",
        '{"id":"AAAA","rawId":"AAAA","type":"public-key","response":{}}',
        '{"id":"AAAA","rawId":"A","type":"public-key","response":{"clientDataJSON":"A","authenticatorData":"A","signature":""}}',
    ],
)  # fmt: skip
def test_malformed_response_is_refused(response: str, service: Service) -> None:
    register(service)
    login = Login(service)
    login.options()
    assert login.finish(response).status_code == 401


class Settings:
    """A browser that is signed in and registers passkeys."""

    def __init__(self, service: Service, email: str = TWIN) -> None:
        service.installation.reset_attempts(email)
        self.browser = signed_in(service, email, SECOND_FACTOR)
        self.browser.send_code(totp_code())
        page = self.browser.get(f"{SECURITY}/passkeys/new")
        assert "Add passkey" in page.text
        self._token = form_token(page)

    def options(self) -> requests.Response:
        return self._post("options")

    def challenge(self) -> str:
        challenge: str = self.options().json()["challenge"]
        return challenge

    def add(self, response: str, name: str = "key") -> requests.Response:
        return self._post("new", name=name, response=response)

    def _post(self, path: str, **fields: str) -> requests.Response:
        return post(self.browser, f"{SECURITY}/passkeys/{path}", csrf=self._token, **fields)


def is_added(answer: requests.Response) -> bool:
    return answer.status_code == 303 and "daybreak-flash=passkey-added" in answer.headers["Set-Cookie"]


def stored(service: Service, email: str = TWIN) -> int:
    return len(service.installation.read(lambda stores: stores.passkeys.list_for(seat_id(email))))


@each_database
def test_registered_passkey_completes_a_login(service: Service) -> None:
    settings, authenticator = Settings(service), SoftwareAuthenticator(ORIGIN, "localhost")
    options = settings.options().json()
    assert options["rp"]["id"] == "localhost"
    assert len(options["challenge"]) == 43
    assert TWIN not in options["user"]["id"]
    assert is_added(settings.add(authenticator.create(options["challenge"])))
    assert [each["id"] for each in settings.options().json()["excludeCredentials"]] == [
        encode(authenticator.credential_id)
    ]
    login = Login(service, TWIN)
    assert is_signed_in(login.finish(authenticator.get(login.challenge())))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"origin": "http://evil.example"}, id="origin"),
        pytest.param({"rp_id": "evil.example"}, id="relying party"),
        pytest.param({"type": "webauthn.get"}, id="type"),
        pytest.param({"challenge": encode(bytes(32))}, id="challenge"),
        pytest.param({"flags": ATTESTED}, id="no user presence"),
        pytest.param({"flags": USER_PRESENT}, id="no credential"),
        pytest.param({"crossOrigin": True}, id="frame of another site"),
    ],
)
def test_registration_for_something_else_is_refused(changes: dict[str, Any], service: Service) -> None:
    settings = Settings(service)
    refused = settings.add(SoftwareAuthenticator(ORIGIN, "localhost").create(settings.challenge(), **changes))
    assert refused.status_code == 401
    assert stored(service) == 0
    assert events(service, "passkey.added", TWIN)[-1].result == "invalid_passkey"


def test_credential_of_another_seat_is_refused(service: Service) -> None:
    settings, foreign = Settings(service), register(service)
    refused = settings.add(foreign.create(settings.challenge()))
    assert refused.status_code == 409
    assert "This passkey is already registered." in refused.text
    assert stored(service) == 0


@each_database
def test_seat_has_at_most_ten_passkeys(service: Service) -> None:
    settings = Settings(service)
    for _ in range(9):
        register(service, TWIN)
    challenge = settings.challenge()
    register(service, TWIN)
    refused = settings.add(SoftwareAuthenticator(ORIGIN, "localhost").create(challenge))
    assert refused.status_code == 409
    assert settings.options().status_code == 409
    assert stored(service) == 10


def test_passkeys_of_other_seats_are_not_found(service: Service) -> None:
    settings, foreign = Settings(service), register(service)
    (reference,) = [
        each.reference
        for each in service.installation.read(lambda stores: stores.passkeys.list_for(seat_id(CARL)))
        if each.credential_id == encode(foreign.credential_id)
    ]
    for path in ("rename", "remove"):
        assert settings.browser.get(f"{SECURITY}/passkeys/{reference}/{path}").status_code == 404


@pytest.mark.release
def test_address_without_a_host_name_has_no_passkeys(service_without_host_name: Service) -> None:
    service = service_without_host_name
    register(service)
    with signed_in(service, CARL, SECOND_FACTOR) as browser:
        page = browser.get(SECOND_FACTOR)
        assert "Use a passkey" not in page.text
        assert browser.post(f"{SECOND_FACTOR}/passkey/options", {"csrf": form_token(page)}).status_code == 404
        assert urlsplit(service.base_url).hostname == "127.0.0.1"
        browser.send_code(totp_code())
        assert "Passkeys are not available" in browser.get(SECURITY).text


@pytest.fixture
def service_without_host_name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service at http://127.0.0.1."""
    with serving(new_installation(tmp_path_factory.mktemp("no host name")), workers=1) as found:
        yield found
