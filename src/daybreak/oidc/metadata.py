"""Metadata of a provider (OpenID Connect Discovery 1.0 §3, RFC 8414)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from daybreak.domain.errors import ProviderUnavailable
from daybreak.oidc.http import is_secure

ClientAuthentication = Literal["client_secret_basic", "client_secret_post"]


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """The endpoints of a provider. `sends_issuer`: authorization responses contain `iss` (RFC 9207)."""

    issuer: str
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
        issuer=issuer,
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
