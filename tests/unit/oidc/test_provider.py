"""Metadata, keys, authorization URL and client authentication of a provider over HTTP."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr

from daybreak.credentials.id_token import IdToken
from daybreak.domain.errors import ProviderUnavailable
from daybreak.oidc.provider import AuthorizationRequest, Provider, TokenRefused, metadata_url
from daybreak.settings import OidcSettings
from tests.parts.scripted_provider import CLIENT_ID, CLIENT_SECRET, ScriptedProvider, scripted_provider
from tests.parts.scripted_service import Reply

REDIRECT_URI = "https://data.example.org/dashboard/sign-in/oidc/callback"
# The verifier and its challenge are those of RFC 7636, appendix B.
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
REQUEST = AuthorizationRequest("the state", "the nonce", VERIFIER)


@pytest.fixture
def scripted() -> Iterator[ScriptedProvider]:
    with scripted_provider() as found:
        yield found


@pytest.fixture
def now() -> list[datetime]:
    return [datetime.now(UTC)]


@pytest.fixture
def provider(scripted: ScriptedProvider, now: list[datetime]) -> Provider:
    settings = OidcSettings(issuer=scripted.issuer, client_id=CLIENT_ID, client_secret=SecretStr(CLIENT_SECRET))
    return Provider(settings, CLIENT_SECRET, REDIRECT_URI, lambda: now[0])


async def redeem(provider: Provider, scripted: ScriptedProvider) -> IdToken:
    code = scripted.authorize(await provider.authorization_url(REQUEST))["code"]
    return await provider.redeem(code, REQUEST, wants_email=True)


async def test_authorization_url_has_the_parameters_of_the_code_flow(
    provider: Provider, scripted: ScriptedProvider
) -> None:
    scripted.metadata = {"authorization_endpoint": f"{scripted.issuer}/authorize?tenant=1"}
    url = await provider.authorization_url(REQUEST)
    assert {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()} == {
        "tenant": "1",
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": REDIRECT_URI,
        "scope": "openid email",
        "state": "the state",
        "nonce": "the nonce",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_client_authenticates_as_the_provider_supports(
    method: str, provider: Provider, scripted: ScriptedProvider
) -> None:
    scripted.metadata = {"token_endpoint_auth_methods_supported": ["private_key_jwt", method]}
    assert (await redeem(provider, scripted)).subject == "user-1"
    sent = scripted.service.requests[-2]
    assert ("authorization" in sent.headers) is (method == "client_secret_basic")
    assert (b"client_secret=" in sent.body) is (method == "client_secret_post")


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://other.example"},
        {"issuer": None},
        {"token_endpoint": "http://login.example.org/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": 7},
        {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
        {"token_endpoint_auth_methods_supported": "client_secret_basic"},
    ],
)
async def test_invalid_metadata_is_refused(
    metadata: dict[str, object], provider: Provider, scripted: ScriptedProvider
) -> None:
    scripted.metadata = metadata
    with pytest.raises(ProviderUnavailable):
        await provider.metadata()
    # A refused document is not kept.
    scripted.metadata = {}
    assert (await provider.metadata()).jwks_uri.startswith(scripted.issuer)


async def test_issuer_with_a_final_slash_is_another_issuer(scripted: ScriptedProvider, now: list[datetime]) -> None:
    settings = OidcSettings(issuer=f"{scripted.issuer}/", client_id=CLIENT_ID, client_secret=SecretStr(CLIENT_SECRET))
    provider = Provider(settings, CLIENT_SECRET, REDIRECT_URI, lambda: now[0])
    with pytest.raises(ProviderUnavailable) as refused:
        await provider.metadata()
    assert "Set it to the same text" in refused.value.detail
    assert metadata_url("https://a.example/x/") == "https://a.example/x/.well-known/openid-configuration"


async def test_metadata_and_keys_are_fetched_once_an_hour(
    provider: Provider, scripted: ScriptedProvider, now: list[datetime]
) -> None:
    for _ in range(2):
        await redeem(provider, scripted)
    assert scripted.requests.count("/jwks") == 1
    assert scripted.requests.count("/.well-known/openid-configuration") == 1
    now[0] += timedelta(hours=1)
    assert await provider.check() == 1
    assert scripted.requests.count("/jwks") == 2
    assert scripted.requests.count("/.well-known/openid-configuration") == 2


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(400, {"error": "invalid_grant"}), "invalid_grant"),
        (Reply(401, {"error": "invalid_client"}), "token_request_refused"),
        (Reply(302, {}, {"Location": "/elsewhere"}), "token_request_refused"),
        (Reply(200, {"access_token": "x"}), "no_id_token"),
        (Reply(200, {"id_token": "x"}), "no_id_token"),
        (Reply(200, {"id_token": ["x"], "access_token": "x"}), "no_id_token"),
        (Reply(200, {"id_token": "x", "access_token": "secret\n"}), "access_token"),
        (Reply(200, {"id_token": "x", "access_token": "secret\u20ac"}), "access_token"),
    ],
)
async def test_refusal_of_the_token_endpoint_is_reported(
    reply: Reply, reason: str, provider: Provider, scripted: ScriptedProvider
) -> None:
    scripted.replies["/token"] = reply
    with pytest.raises(TokenRefused) as refused:
        await redeem(provider, scripted)
    assert refused.value.reason == reason


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_outage_of_the_token_endpoint_is_no_refusal(
    status: int, provider: Provider, scripted: ScriptedProvider
) -> None:
    scripted.replies["/token"] = Reply(status, {"error": "temporarily_unavailable"})
    with pytest.raises(ProviderUnavailable) as unavailable:
        await redeem(provider, scripted)
    assert unavailable.value.detail == f"{scripted.issuer}/token responded with status {status}"


@pytest.mark.parametrize("keys", [{}, {"keys": None}, {"keys": {"first": 1}}])
async def test_key_set_without_keys_is_refused(keys: object, provider: Provider, scripted: ScriptedProvider) -> None:
    scripted.replies["/jwks"] = Reply(200, keys)
    with pytest.raises(ProviderUnavailable):
        await provider.check()


def test_secrets_are_not_in_representations(provider: Provider) -> None:
    assert CLIENT_SECRET not in repr(provider)
    assert VERIFIER not in repr(REQUEST)
