"""The settings of single sign-on."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from daybreak.settings.sections import Section
from daybreak.settings.text_forms import InvalidValue
from daybreak.settings.types import Issuer, OptionalPath, Scopes


class OidcSettings(Section):
    """Single sign-on to the dashboard with an OpenID Connect provider."""

    issuer: Issuer = Field(
        default="",
        description="Issuer of the provider, exactly as in its `/.well-known/openid-configuration`; empty: no single "
        "sign-on.",
    )
    client_id: str = Field(default="", description="Client id that the provider issued for Daybreak.")
    client_secret: SecretStr = Field(
        default=SecretStr(""), description="Client secret. Prefer `client_secret_file` or an environment variable."
    )
    client_secret_file: OptionalPath = Field(
        default=None, description="File that contains the client secret, mode 0600; the same on every node."
    )
    name: str = Field(default="single sign-on", description="Name of the provider on the button *Sign in with NAME*.")
    scopes: Scopes = Field(default=("openid", "email"), description="Scopes to request. `openid` is required.")
    match: Literal["email", "subject"] = Field(
        default="email",
        description='"email": the first sign-in finds the seat by an email that the provider has verified, and binds '
        'the seat to the user. "subject": only seats that `daybreakd seat bind` has bound can sign in.',
    )
    password_login: bool = Field(
        default=True,
        description="Accept passwords, in the dashboard and in the API. Switch off to allow single sign-on and API "
        "tokens only.",
    )
    trust_second_factor: bool = Field(
        default=False,
        description="Accept the second factor of the provider, if the ID token states one (`amr` or `acr`), instead of "
        "asking for the seat's own.",
    )

    @field_validator("client_id")
    @classmethod
    def _require_client_id(cls, client_id: str, info: ValidationInfo) -> str:
        issuer = info.data.get("issuer")
        if issuer and not client_id:
            raise InvalidValue("Set oidc.client_id to the client id that the provider issued.")
        if issuer == "" and client_id:
            raise InvalidValue("Set oidc.issuer too, or remove the setting.")
        return client_id

    @field_validator("client_secret_file")
    @classmethod
    def _require_one_secret(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        secret = info.data.get("client_secret")
        has_secret = secret is not None and bool(secret.get_secret_value())
        if file is not None and has_secret:
            raise InvalidValue("Set either oidc.client_secret_file or oidc.client_secret.")
        if info.data.get("issuer") and file is None and not has_secret:
            raise InvalidValue("Set oidc.client_secret_file to a file that contains the client secret.")
        return file

    @field_validator("password_login")
    @classmethod
    def _keep_a_way_in(cls, password_login: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - pydantic calls it
        if info.data.get("issuer") == "" and not password_login:
            raise InvalidValue("Set oidc.issuer first: without single sign-on, passwords are the only way to sign in.")
        return password_login

    @property
    def enabled(self) -> bool:
        """Whether single sign-on is configured."""
        return bool(self.issuer)
