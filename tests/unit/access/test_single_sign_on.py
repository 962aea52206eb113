"""Single sign-on with a scripted provider over HTTP: what the service refuses, and how seats are found."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from daybreak.access import operators, single_sign_on
from daybreak.access.login import SecondFactorPending, SessionStarted
from daybreak.access.second_factor import complete_login
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, active_session, reauthenticate, require_recent_password
from daybreak.access.single_sign_on import SignInRefused
from daybreak.credentials.sealed_text import seal, unseal
from daybreak.domain.errors import Forbidden, NotFound, OperatorError, ProviderUnavailable, RateLimited, Unauthenticated
from daybreak.domain.identity import Caller, Seat
from daybreak.oidc.provider import KEY_REFRESH_INTERVAL, Provider
from daybreak.settings import AccessSettings, OidcSettings, Rate
from tests.configured import configured
from tests.parts.scripted_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    ScriptedProvider,
    new_key,
    scripted_provider,
)
from tests.parts.scripted_service import Reply
from tests.unit.access.instance import ALPHA, CALLER, INES, OMAR, PASSWORD, ROSA, Instance, open_instance

REDIRECT_URI = "https://data.example.org/dashboard/sign-in/oidc/callback"
MFA = {"amr": ["pwd", "mfa"]}


@dataclass
class Setup:
    """The access services with a provider. Their clock starts at the current time."""

    instance: Instance
    provider: ScriptedProvider
    services: Services

    def configure(self, **settings: Any) -> None:
        """Change settings of the section `oidc`."""
        changed = configured(self.services.settings, oidc=settings)
        provider = Provider(changed.oidc, CLIENT_SECRET, REDIRECT_URI, self.services.clock)
        self.services = replace_fields(self.services, settings=changed, provider=provider)

    async def begin(self, active: ActiveSession | None = None) -> single_sign_on.Redirection:
        begun = single_sign_on.begin(self.services, next_path="/dashboard/next", active=active)
        return await begun

    async def respond(
        self, cookie: str | None, parameters: dict[str, str], caller: Caller = CALLER
    ) -> SessionStarted | SecondFactorPending:
        """Receive a response of the provider, as the callback does."""
        verified = await single_sign_on.verify_response(self.services, cookie, parameters, caller)
        assert verified.request.next_path == "/dashboard/next"
        return await single_sign_on.sign_in(self.services, verified, caller, device_id=None)

    async def sign_in(self, **claims: Any) -> SessionStarted | SecondFactorPending:
        """Sign in as the user with these claims."""
        self.provider.claims = claims
        begun = await self.begin()
        return await self.respond(begun.cookie, self.provider.authorize(begun.url))

    async def signed_in(self, **claims: Any) -> SessionStarted:
        started = await self.sign_in(**claims)
        assert isinstance(started, SessionStarted)
        return started

    async def refusal(self, **claims: Any) -> str:
        """Return the reason for which the sign-in is refused, which the audit trail must contain."""
        with pytest.raises(SignInRefused) as refused:
            await self.sign_in(**claims)
        assert self.instance.audit("login")[-1].result == refused.value.reason
        return refused.value.reason

    async def refusal_of(self, cookie: str | None, parameters: dict[str, str]) -> str:
        """Return the reason for which a response is refused."""
        with pytest.raises(SignInRefused) as refused:
            await self.respond(cookie, parameters)
        return refused.value.reason

    async def confirm(self, active: ActiveSession, **claims: Any) -> None:
        """Reauthenticate a session at the provider."""
        self.provider.claims = claims
        begun = await self.begin(active)
        parameters = self.provider.authorize(begun.url)
        verified = await single_sign_on.verify_response(self.services, begun.cookie, parameters, CALLER)
        await single_sign_on.reauthenticate(self.services, active, verified, CALLER)

    def bind(self, subject: str, seat_id: str = ROSA, issuer: str = "") -> None:
        """Bind a user of the provider, or of another issuer, to a seat, as an operator does."""
        seat, now, issuer = self.instance.seat(seat_id), self.instance.now[0], issuer or self.provider.issuer
        self.instance.write(
            lambda stores: operators.bind_identity(stores, seat, issuer, subject, now, actor="operator")
        )

    async def active(self, started: SessionStarted) -> ActiveSession:
        return await active_session(self.services, started.token)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with open_instance(tmp_path) as instance, scripted_provider() as provider:
        instance.now[0] = datetime.now(UTC)
        settings = OidcSettings(
            issuer=provider.issuer, client_id=CLIENT_ID, client_secret=SecretStr(CLIENT_SECRET), name="Idp"
        )
        made = Setup(instance, provider, instance.services)
        made.services = replace_fields(
            instance.services, settings=instance.services.settings.model_copy(update={"oidc": settings})
        )
        made.configure()
        yield made


async def test_first_sign_in_binds_the_user_to_the_seat(setup: Setup) -> None:
    started = await setup.signed_in()
    assert (started.session.seat_id, started.session.kind, started.session.amr) == (ROSA, "dashboard", ("sso",))
    identities = setup.instance.state.read(lambda stores: stores.identities.list_for(ROSA))
    assert [(each.issuer, each.subject) for each in identities] == [(setup.provider.issuer, "user-1")]
    event = setup.instance.audit("login")[-1]
    assert event.details == {"kind": "dashboard", "method": "oidc", "provider": setup.provider.issuer}
    assert [event.result for event in setup.instance.audit("identity.bound")] == ["ok"]


async def test_bound_user_keeps_the_seat_when_the_email_changes(setup: Setup) -> None:
    await setup.signed_in()
    assert (await setup.signed_in(email="omar@example.org", email_verified=False)).session.seat_id == ROSA


async def test_bound_seat_cannot_be_taken_by_another_user(setup: Setup) -> None:
    await setup.signed_in()
    assert await setup.refusal(sub="user-2") == "bound_to_another_user"


@pytest.mark.parametrize("verified", [False, None, "true", 1])
async def test_email_must_be_verified(verified: object, setup: Setup) -> None:
    assert await setup.refusal(email_verified=verified) == "email_unverified"
    assert setup.instance.state.read(lambda stores: stores.identities.list_all()) == []


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"email": "nobody@example.org"}, "no_seat"),
        ({"email": "rosa@example.org\x00"}, "no_email"),
        ({"email": ["rosa@example.org"]}, "no_email"),
        ({"email": "R\u017fa@example.org"}, "no_seat"),
    ],
)
async def test_unknown_email_is_refused(claims: dict[str, object], reason: str, setup: Setup) -> None:
    setup.provider.userinfo = {"sub": "user-1"}
    assert await setup.refusal(**claims) == reason


async def test_email_equal_only_after_case_folding_is_refused(setup: Setup) -> None:
    setup.instance.write(lambda stores: stores.directory.put_seats(Seat(ROSA, "strasse@example.org")))
    assert await setup.refusal(email="stra\u00dfe@example.org") == "no_seat"
    assert (await setup.signed_in(email="STRASSE@example.org")).session.seat_id == ROSA


async def test_disabled_seat_is_refused(setup: Setup) -> None:
    setup.instance.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
    assert await setup.refusal() == "seat_disabled"
    setup.instance.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=False))
    await setup.signed_in()
    setup.instance.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
    assert await setup.refusal() == "seat_disabled"


async def test_unbound_subject_is_refused_when_matching_by_subject(setup: Setup) -> None:
    setup.configure(match="subject")
    assert await setup.refusal() == "no_seat"
    assert setup.instance.audit("login")[-1].details["identity"] == "user-1"
    setup.bind("user-1")
    assert (await setup.signed_in(email=None)).session.seat_id == ROSA


async def test_same_subject_of_another_issuer_is_another_user(setup: Setup) -> None:
    setup.configure(match="subject")
    setup.bind("user-1", issuer="https://other.example")
    assert await setup.refusal() == "no_seat"


async def test_unbinding_ends_the_sessions(setup: Setup) -> None:
    started = await setup.signed_in()
    seat = setup.instance.seat(ROSA)
    unbound = setup.instance.write(
        lambda stores: operators.unbind_identities(stores, seat, setup.instance.now[0], actor="operator")
    )
    assert unbound == (1, 1)
    with pytest.raises(Unauthenticated):
        await setup.active(started)
    assert (await setup.signed_in(sub="user-2")).session.seat_id == ROSA


async def test_reset_of_the_second_factor_keeps_the_binding(setup: Setup) -> None:
    await setup.signed_in()
    seat = setup.instance.seat(ROSA)
    setup.instance.write(
        lambda stores: operators.reset_second_factor(stores, seat, setup.instance.now[0], actor="operator")
    )
    assert len(setup.instance.state.read(lambda stores: stores.identities.list_for(ROSA))) == 1


async def test_own_second_factor_is_required(setup: Setup) -> None:
    seed = setup.instance.enrol_second_factor(OMAR)
    pending = await setup.sign_in(email="omar@example.org", **MFA)
    assert isinstance(pending, SecondFactorPending)
    code = setup.instance.code(seed)
    started = await complete_login(setup.services, pending.token, code, CALLER)
    assert started.session.amr == ("sso", "otp")
    required = await setup.sign_in(sub="user-2", email="ines@example.org", **MFA)
    assert isinstance(required, SecondFactorPending)
    assert required.session.seat_id == INES


@pytest.mark.parametrize("claims", [MFA, {"acr": "phr"}])
async def test_trusted_second_factor_of_the_provider_is_accepted(claims: dict[str, object], setup: Setup) -> None:
    setup.configure(trust_second_factor=True)
    started = await setup.signed_in(email="ines@example.org", **claims)
    assert started.session.amr == ("sso", "mfa")
    await setup.active(started)
    assert isinstance(await setup.sign_in(email="ines@example.org"), SecondFactorPending)


async def test_code_is_accepted_once(setup: Setup) -> None:
    begun = await setup.begin()
    first = setup.provider.authorize(begun.url)
    await setup.respond(begun.cookie, first)
    other = await setup.begin()
    stolen = setup.provider.authorize(other.url) | {"code": first["code"]}
    assert await setup.refusal_of(other.cookie, stolen) == "invalid_grant"


async def test_code_of_another_request_is_refused(setup: Setup) -> None:
    # The attacker injects the victim's code into a different sign-in; the code challenge differs.
    victim, attacker = await setup.begin(), await setup.begin()
    injected = setup.provider.authorize(attacker.url) | {"code": setup.provider.authorize(victim.url)["code"]}
    assert await setup.refusal_of(attacker.cookie, injected) == "invalid_grant"


@pytest.mark.parametrize("cookie", [None, "", "x", "00000000.AAAA", "kid.", "."])
async def test_response_without_the_cookie_is_refused(cookie: str | None, setup: Setup) -> None:
    parameters = setup.provider.authorize((await setup.begin()).url)
    assert await setup.refusal_of(cookie, parameters) == "no_request"
    assert "/token" not in setup.provider.requests


async def test_response_for_another_browser_is_refused(setup: Setup) -> None:
    attacker, victim = await setup.begin(), await setup.begin()
    assert await setup.refusal_of(victim.cookie, setup.provider.authorize(attacker.url)) == "state_mismatch"
    assert "/token" not in setup.provider.requests


async def test_cookie_for_another_purpose_is_refused(setup: Setup) -> None:
    keyring = setup.services.keyring.current()
    content = json.dumps({"state": "s", "nonce": "n", "code_verifier": "v", "next_path": "", "started_at": 0})
    cookie = seal(content.encode(), purpose="csrf", keyring=keyring, random=setup.services.random)
    assert await setup.refusal_of(cookie, {"state": "s", "code": "c"}) == "no_request"


async def test_late_response_is_refused(setup: Setup) -> None:
    begun = await setup.begin()
    setup.instance.advance(minutes=10)
    assert await setup.refusal_of(begun.cookie, setup.provider.authorize(begun.url)) == "request_expired"


@pytest.mark.parametrize("issuer", ["https://other.example", "", None])
async def test_response_of_another_issuer_is_refused(issuer: str | None, setup: Setup) -> None:
    begun = await setup.begin()
    parameters = setup.provider.authorize(begun.url)
    parameters = parameters | {"iss": issuer} if issuer is not None else {**parameters}
    if issuer is None:
        del parameters["iss"]
    assert await setup.refusal_of(begun.cookie, parameters) == "response_issuer"
    assert "/token" not in setup.provider.requests


async def test_response_without_issuer_is_accepted_from_providers_that_send_none(setup: Setup) -> None:
    setup.provider.metadata = {"authorization_response_iss_parameter_supported": None}
    begun = await setup.begin()
    parameters = setup.provider.authorize(begun.url)
    del parameters["iss"]
    assert isinstance(await setup.respond(begun.cookie, parameters), SessionStarted)
    wrong = await setup.begin()
    with pytest.raises(SignInRefused):
        await setup.respond(wrong.cookie, setup.provider.authorize(wrong.url, iss="https://other.example"))


async def test_error_of_the_provider_is_refused(setup: Setup) -> None:
    begun = await setup.begin()
    assert (
        await setup.refusal_of(begun.cookie, setup.provider.authorize(begun.url, error="access_denied"))
        == "denied_by_provider"
    )


@pytest.mark.parametrize("code", ["", "x" * 5000, "a\nb", "\u00e9"])
async def test_malformed_code_is_refused(code: str, setup: Setup) -> None:
    begun = await setup.begin()
    assert await setup.refusal_of(begun.cookie, setup.provider.authorize(begun.url, code=code)) == "no_code"


@pytest.mark.parametrize(
    ("issue", "reason"),
    [
        (lambda provider: lambda claims: provider.sign(claims, new_key("first")), "id_token_signature"),
        (lambda provider: lambda claims: provider.sign(claims, new_key("other")), "id_token_unknown_key"),
        (lambda _: lambda _claims: "not.a.token", "id_token_malformed"),
    ],
    ids=["forged", "unknown key", "malformed"],
)
async def test_forged_id_token_is_refused(issue: Callable[..., Any], reason: str, setup: Setup) -> None:
    setup.provider.issue = issue(setup.provider)
    assert await setup.refusal() == reason


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "id_token_issuer"),
        ({"aud": "another"}, "id_token_audience"),
        ({"azp": "another"}, "id_token_authorized_party"),
        ({"nonce": "another"}, "id_token_nonce"),
        ({"exp": 1}, "id_token_expired"),
        ({"at_hash": "another"}, "id_token_access_token_hash"),
    ],
)
async def test_id_token_with_wrong_claims_is_refused(claims: dict[str, object], reason: str, setup: Setup) -> None:
    assert await setup.refusal(**claims) == reason


async def test_rotated_key_is_fetched_once_per_interval(setup: Setup) -> None:
    await setup.signed_in()
    setup.provider.keys = [new_key("second")]
    await setup.signed_in()
    assert setup.provider.requests.count("/jwks") == 2
    setup.provider.keys = [new_key("third")]
    assert await setup.refusal() == "id_token_unknown_key"
    assert setup.provider.requests.count("/jwks") == 2
    setup.instance.now[0] += KEY_REFRESH_INTERVAL
    await setup.signed_in()
    assert setup.provider.requests.count("/jwks") == 3


async def test_key_rotated_under_the_same_id_is_fetched(setup: Setup) -> None:
    await setup.signed_in()
    setup.provider.keys = [new_key("first")]
    await setup.signed_in()
    assert setup.provider.requests.count("/jwks") == 2


async def test_removed_key_is_refused_after_an_hour(setup: Setup) -> None:
    await setup.signed_in()
    old, setup.provider.keys = setup.provider.keys[0], [new_key("second")]
    setup.provider.issue = lambda claims: setup.provider.sign(claims, old)
    await setup.signed_in()
    setup.instance.advance(minutes=59)
    setup.provider.claims = {}
    setup.instance.advance(minutes=1)
    now = int(setup.instance.now[0].timestamp())
    assert await setup.refusal(iat=now, exp=now + 60) == "id_token_unknown_key"


async def test_missing_email_is_read_from_userinfo(setup: Setup) -> None:
    setup.provider.userinfo = {"sub": "user-1", "email": "rosa@example.org", "email_verified": True}
    assert (await setup.signed_in(email=None, email_verified=None)).session.seat_id == ROSA


async def test_userinfo_of_another_user_is_refused(setup: Setup) -> None:
    setup.provider.userinfo = {"sub": "user-2", "email": "rosa@example.org", "email_verified": True}
    assert await setup.refusal(email=None) == "userinfo_subject"


async def test_unavailable_provider_is_reported_and_recorded(setup: Setup) -> None:
    setup.provider.metadata = {"issuer": "https://other.example.org/" + "x" * 1000}
    with capture_logs() as lines, pytest.raises(ProviderUnavailable):
        await setup.begin()
    setup.provider.metadata = {}
    begun = await setup.begin()
    setup.provider.replies["/token"] = Reply(500, b"<html>")
    with capture_logs() as more, pytest.raises(ProviderUnavailable):
        await setup.respond(begun.cookie, setup.provider.authorize(begun.url))
    assert setup.instance.audit("login")[-1].result == "provider_unavailable"
    other, token = (line["reason"] for line in (*lines, *more) if line["event"] == "oidc.unavailable")
    assert other.startswith("the provider names itself 'https://other.example.org/xxx")
    assert len(other) == 300
    assert token == f"{setup.provider.issuer}/token responded with status 500 and no JSON object"


async def test_attempts_are_limited_per_address(setup: Setup) -> None:
    access = AccessSettings().model_copy(update={"login_per_address": Rate(3, timedelta(minutes=5))})
    setup.services = replace_fields(
        setup.services, settings=setup.services.settings.model_copy(update={"access": access})
    )
    for _ in range(3):
        with pytest.raises(SignInRefused):
            await setup.respond(None, {})
    with pytest.raises(RateLimited):
        await setup.respond(None, {})
    begun = await setup.begin()
    elsewhere = Caller("198.51.100.9")
    assert isinstance(await setup.respond(begun.cookie, setup.provider.authorize(begun.url), elsewhere), SessionStarted)


async def test_provider_session_is_no_recent_password(setup: Setup) -> None:
    active = await setup.active(await setup.signed_in())
    with pytest.raises(Forbidden):
        require_recent_password(setup.services, active.session)
    now = int(setup.instance.now[0].timestamp())
    recent = await setup.active(await setup.signed_in(auth_time=now - 60))
    require_recent_password(setup.services, recent.session)
    old = await setup.active(await setup.signed_in(auth_time=now - 601))
    with pytest.raises(Forbidden):
        require_recent_password(setup.services, old.session)


async def test_reauthentication_requires_a_new_sign_in_of_the_same_user(setup: Setup) -> None:
    active = await setup.active(await setup.signed_in())
    now = int(setup.instance.now[0].timestamp())
    for claims, reason in (
        ({"auth_time": now - 61}, "not_reauthenticated"),
        ({}, "not_reauthenticated"),
        ({"auth_time": now, "sub": "user-2"}, "another_user"),
    ):
        with pytest.raises(SignInRefused) as refused:
            await setup.confirm(active, **claims)
        assert refused.value.reason == reason
        assert setup.instance.audit("reauthenticated")[-1].result == reason
    assert "prompt=login" in (await setup.begin(active)).url
    assert "max_age=0" in (await setup.begin(active)).url
    await setup.confirm(active, auth_time=now)
    assert setup.instance.audit("reauthenticated")[-1].result == "ok"


async def test_reauthentication_of_another_session_is_refused(setup: Setup) -> None:
    first, second = await setup.active(await setup.signed_in()), await setup.active(await setup.signed_in())
    begun = await setup.begin(first)
    setup.provider.claims = {"auth_time": int(setup.instance.now[0].timestamp())}
    parameters = setup.provider.authorize(begun.url)
    verified = await single_sign_on.verify_response(setup.services, begun.cookie, parameters, CALLER)
    with pytest.raises(SignInRefused) as refused:
        await single_sign_on.reauthenticate(setup.services, second, verified, CALLER)
    assert refused.value.reason == "another_user"


async def test_password_is_refused_when_password_login_is_off(setup: Setup) -> None:
    from daybreak.access.login import login

    started = await setup.instance.log_in()
    setup.configure(password_login=False)
    with pytest.raises(Forbidden) as refused:
        await login(setup.services, email="rosa@example.org", password=PASSWORD, caller=CALLER)
    assert refused.value.code == "password_login_disabled"
    active = await setup.active(started)
    with pytest.raises(Forbidden):
        await reauthenticate(setup.services, active, PASSWORD, CALLER)
    assert active.client_id == ALPHA


async def test_sign_in_ends_the_session_that_the_browser_held(setup: Setup) -> None:
    held = await setup.signed_in()
    begun = await setup.begin()
    parameters = setup.provider.authorize(begun.url)
    verified = await single_sign_on.verify_response(setup.services, begun.cookie, parameters, CALLER)
    await single_sign_on.sign_in(setup.services, verified, CALLER, device_id=None, held_sid=held.session.sid)
    with pytest.raises(Unauthenticated):
        await setup.active(held)


@pytest.mark.parametrize("subject", ["", "x" * 256, "user\n1"])
def test_subject_that_no_provider_sends_is_not_bound(subject: str, setup: Setup) -> None:
    with pytest.raises(OperatorError, match="Copy it exactly"):
        setup.bind(subject)


@pytest.mark.parametrize(("seat_id", "subject"), [(ROSA, "user-2"), (OMAR, "user-1")])
async def test_operator_cannot_bind_twice(seat_id: str, subject: str, setup: Setup) -> None:
    await setup.signed_in()
    with pytest.raises(OperatorError, match="is bound to"):
        setup.bind(subject, seat_id)


async def test_unconfigured_single_sign_on_is_not_found(setup: Setup) -> None:
    with pytest.raises(NotFound):
        await single_sign_on.begin(setup.instance.services, next_path="")
    with pytest.raises(NotFound):
        await single_sign_on.verify_response(setup.instance.services, "", {}, CALLER)


@pytest.mark.parametrize("character", ["a", '"', "\u20ac"])
async def test_cookie_stays_below_the_limit_of_browsers(setup: Setup, character: str) -> None:
    for length in (1, 2000, 3900):
        next_path = "/dashboard/" + character * length
        begun = await single_sign_on.begin(setup.services, next_path=next_path)
        assert len(begun.cookie) < 4000
        content = unseal(begun.cookie, purpose="oidc-request", keyring=setup.services.keyring.current())
        assert content is not None
        assert json.loads(content)["next_path"] in (next_path, "")
        assert length > 1 or json.loads(content)["next_path"]
