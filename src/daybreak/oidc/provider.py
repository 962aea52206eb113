"""The provider of single sign-on, with its metadata and keys in memory, and the secret of this client."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
import structlog

from daybreak.credentials.id_token import Expected, IdToken, InvalidIdToken, UnverifiedIdToken, validate
from daybreak.domain.errors import OperatorError, ProviderUnavailable, ReasonError
from daybreak.domain.operator_file import read_private
from daybreak.oidc.http import is_secure, send
from daybreak.settings import OidcSettings

_MAXIMUM_BYTES = 4096
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500

_log = structlog.get_logger("daybreak.oidc")
# How long metadata and keys are used before they are fetched again.
CACHE_LIFETIME = timedelta(hours=1)
# Minimum time between two fetches because of unverified tokens.
KEY_REFRESH_INTERVAL = timedelta(seconds=30)
CALLBACK_PATH = "/dashboard/sign-in/oidc/callback"

ClientAuthentication = Literal["client_secret_basic", "client_secret_post"]


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The endpoints of a provider. `sends_issuer`: authorization responses contain `iss` (RFC 9207)."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    client_authentication: ClientAuthentication
    sends_issuer: bool


def metadata_url(issuer: str) -> str:
    """Return the URL of the metadata document (OpenID Connect Discovery 1.0 §4)."""
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def parse_metadata(document: Mapping[str, Any], issuer: str) -> ProviderMetadata:
    """Check a metadata document. Raises ProviderUnavailable.

    The issuer is compared character by character, so that one provider cannot answer for another.
    """
    if document.get("issuer") != issuer:
        raise ProviderUnavailable(
            f"the provider names itself {document.get('issuer')!r}, oidc.issuer is {issuer!r}. Set it to the same text"
        )
    userinfo = document.get("userinfo_endpoint")
    return ProviderMetadata(
        authorization_endpoint=_endpoint(document, "authorization_endpoint"),
        token_endpoint=_endpoint(document, "token_endpoint"),
        jwks_uri=_endpoint(document, "jwks_uri"),
        userinfo_endpoint=None if userinfo is None else _endpoint(document, "userinfo_endpoint"),
        client_authentication=_client_authentication(document),
        sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(document: Mapping[str, Any], name: str) -> str:
    url = document.get(name)
    if not isinstance(url, str) or not is_secure(url) or "#" in url:
        raise ProviderUnavailable(f"{name} of the provider is not an https URL")
    return url


def _client_authentication(document: Mapping[str, Any]) -> ClientAuthentication:
    """Return the method that the provider supports. Without a list, it is `client_secret_basic`."""
    supported = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    for method in ("client_secret_basic", "client_secret_post"):
        if isinstance(supported, list) and method in supported:
            return method
    raise ProviderUnavailable("the provider supports neither client_secret_basic nor client_secret_post")


def read_client_secret(settings: OidcSettings) -> str:
    """Return the client secret. Raises OperatorError that names the setting and the fix."""
    path = settings.client_secret_file
    if path is None:
        return settings.client_secret.get_secret_value()
    content = read_private(path, _MAXIMUM_BYTES, setting="oidc.client_secret_file")
    try:
        secret = content.decode("ascii").strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret.isprintable() or not secret:
        raise OperatorError(
            f"oidc.client_secret_file: {path} must contain the client secret on one line, and nothing else."
        )
    return secret


class TokenRefused(ReasonError):
    """The provider refused the authorization code, or sent an invalid ID token."""


class AuthorizationRequest(msgspec.Struct, frozen=True):
    """The values of one authorization request that the response and the tokens must match."""

    state: str
    nonce: str
    code_verifier: str

    def __repr__(self) -> str:
        """Leave the secrets out of logs."""
        return f"{type(self).__name__}({self.state})"


class Provider:
    """The configured provider. One instance per process."""

    def __init__(
        self, settings: OidcSettings, client_secret: str, redirect_uri: str, clock: Callable[[], datetime]
    ) -> None:
        self.issuer = settings.issuer
        self.redirect_uri = redirect_uri
        self._settings = settings
        self._client_secret = client_secret
        self._clock = clock
        self._metadata: ProviderMetadata | None = None
        self._metadata_fetched_at: datetime | None = None
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._keys_fetched_at: datetime | None = None
        self._keys_refreshed_at: datetime | None = None

    async def metadata(self) -> ProviderMetadata:
        """Return the metadata, at most an hour old. Raises ProviderUnavailable."""
        if self._metadata is None or self._is_due(self._metadata_fetched_at, CACHE_LIFETIME):
            document = await _get(metadata_url(self.issuer))
            self._metadata = parse_metadata(document, self.issuer)
            self._metadata_fetched_at = self._clock()
        return self._metadata

    async def authorization_url(self, request: AuthorizationRequest, *, reauthenticate: bool = False) -> str:
        """Return the URL at which the user signs in: authorization code flow with PKCE (RFC 7636).

        Raises ProviderUnavailable.
        """
        endpoint = (await self.metadata()).authorization_endpoint
        challenge = hashlib.sha256(request.code_verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": request.state,
            "nonce": request.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        if reauthenticate:
            # Ask for the credentials even if the provider has a session, and state when they were entered.
            parameters |= {"prompt": "login", "max_age": "0"}
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(parameters)}"

    async def redeem(self, code: str, request: AuthorizationRequest, *, wants_email: bool) -> IdToken:
        """Exchange an authorization code for a validated ID token.

        With `wants_email`, a missing email is read from the userinfo endpoint.
        Raises TokenRefused, ProviderUnavailable.
        """
        metadata = await self.metadata()
        status, document = await self._request_tokens(metadata, code, request.code_verifier)
        if status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR:
            # An outage, whatever the body says.
            raise _unexpected(metadata.token_endpoint, status)
        if status != 200:
            error = document.get("error")
            _log.warning("oidc.token_refused", status=status, error=str(error)[:60])
            # invalid_grant: the code has expired or was used. Other errors have their cause in the configuration.
            raise TokenRefused("invalid_grant" if error == "invalid_grant" else "token_request_refused")
        id_token, access_token = document.get("id_token"), document.get("access_token")
        if not isinstance(id_token, str) or not isinstance(access_token, str):
            raise TokenRefused("no_id_token")
        # RFC 6749, appendix A.12. The error of a header with other characters contains the token, and is logged.
        if not access_token.isascii() or not access_token.isprintable():
            raise TokenRefused("access_token")
        try:
            claims = await self._validate(id_token, access_token, request.nonce)
        except InvalidIdToken as error:
            _log.warning("oidc.id_token_refused", reason=error.reason)
            raise TokenRefused(f"id_token_{error.reason}") from None
        if wants_email and claims.email is None and metadata.userinfo_endpoint is not None:
            return await self._with_userinfo(claims, metadata.userinfo_endpoint, access_token)
        return claims

    async def check(self) -> int:
        """Fetch metadata and keys, and return the number of keys. Raises ProviderUnavailable."""
        return len(await self._current_keys())

    async def _request_tokens(
        self, metadata: ProviderMetadata, code: str, code_verifier: str
    ) -> tuple[int, dict[str, Any]]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": code_verifier,
        }
        client_id = self._settings.client_id
        if metadata.client_authentication == "client_secret_post":
            form |= {"client_id": client_id, "client_secret": self._client_secret}
            return await send(metadata.token_endpoint, form=form)
        # RFC 6749 §2.3.1: both parts are form-encoded before they are joined.
        credentials = f"{quote_plus(client_id)}:{quote_plus(self._client_secret)}"
        basic = base64.b64encode(credentials.encode()).decode()
        return await send(metadata.token_endpoint, form=form, headers={"Authorization": f"Basic {basic}"})

    async def _validate(self, id_token: str, access_token: str, nonce: str) -> IdToken:
        keys = await self._current_keys()
        expected = Expected(self.issuer, self._settings.client_id, nonce, self._clock().timestamp())
        try:
            return validate(id_token, keys, expected, access_token=access_token)
        except UnverifiedIdToken:
            # The provider has rotated its keys since they were fetched.
            if not self._is_due(self._keys_refreshed_at, KEY_REFRESH_INTERVAL):
                raise
        self._keys_refreshed_at = self._clock()
        return validate(id_token, await self._fetch_keys(), expected, access_token=access_token)

    async def _current_keys(self) -> Sequence[Mapping[str, Any]]:
        return await self._fetch_keys() if self._is_due(self._keys_fetched_at, CACHE_LIFETIME) else self._keys

    async def _fetch_keys(self) -> Sequence[Mapping[str, Any]]:
        document = await _get((await self.metadata()).jwks_uri)
        keys = document.get("keys")
        if not isinstance(keys, list):
            raise ProviderUnavailable("the key set of the provider has no keys")
        self._keys = [key for key in keys if isinstance(key, dict)]
        self._keys_fetched_at = self._clock()
        return self._keys

    async def _with_userinfo(self, claims: IdToken, endpoint: str, access_token: str) -> IdToken:
        """Add the email of the userinfo endpoint (OpenID Connect Core 1.0 §5.3)."""
        document = await _get(endpoint, {"Authorization": f"Bearer {access_token}"})
        if document.get("sub") != claims.subject:
            raise TokenRefused("userinfo_subject")
        email = document.get("email")
        email = email if isinstance(email, str) and email else None
        return replace(claims, email=email, email_verified=document.get("email_verified") is True)

    def _is_due(self, fetched_at: datetime | None, interval: timedelta) -> bool:
        return fetched_at is None or fetched_at + interval <= self._clock()


async def _get(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    status, document = await send(url, headers=headers)
    if status != 200:
        raise _unexpected(url, status)
    return document


def _unexpected(url: str, status: int) -> ProviderUnavailable:
    return ProviderUnavailable(f"{url.partition('?')[0]} responded with status {status}")
