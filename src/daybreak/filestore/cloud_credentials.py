"""Credentials for object stores, from where each cloud's own tools look for them.

Only keys that lie here can sign with response headers; identities that a cloud hands to a machine (instance and pod
roles, workload identity) are found by the object store library itself.
"""

from __future__ import annotations

import configparser
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from daybreak.domain.errors import OperatorError


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """A pair of keys, with a session token when they are temporary."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class GoogleKey:
    """A service account's key; `private_key` is PEM."""

    client_email: str
    private_key: str = field(repr=False)

    def sign(self, text: str) -> str:
        """RSA PKCS #1 v1.5 over SHA-256, as lower-case hex. Raises OperatorError when the key is no RSA key."""
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import padding, rsa

        try:
            key = serialization.load_pem_private_key(self.private_key.encode(), None)
        except ValueError as error:
            raise OperatorError("The private key in the service account's file cannot be read.") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise OperatorError("The private key in the service account's file is not an RSA key.")
        return key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()).hex()


def aws_keys(environment: Mapping[str, str], home: Path) -> AwsKeys | None:
    """`AWS_ACCESS_KEY_ID` and its fellows, else the profile in `~/.aws/credentials`. None when there are neither.
    Raises OperatorError when the file cannot be understood or lacks the profile that is asked for.
    """
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return AwsKeys(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN") or None,
        )
    path = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    section = _profile(path, environment.get("AWS_PROFILE") or "default")
    if section is None:
        if environment.get("AWS_PROFILE"):
            raise OperatorError(f"AWS_PROFILE names '{environment['AWS_PROFILE']}', which is not in {path}.")
        return None
    if "aws_access_key_id" not in section or "aws_secret_access_key" not in section:
        return None
    return AwsKeys(
        section["aws_access_key_id"], section["aws_secret_access_key"], section.get("aws_session_token") or None
    )


def aws_region(environment: Mapping[str, str], home: Path) -> str | None:
    """`AWS_REGION`, `AWS_DEFAULT_REGION`, or the profile's in `~/.aws/config`."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if environment.get(name):
            return environment[name]
    profile = environment.get("AWS_PROFILE") or "default"
    path = Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config")
    section = _profile(path, profile if profile == "default" else f"profile {profile}")
    return None if section is None else section.get("region")


def google_key(environment: Mapping[str, str]) -> GoogleKey | None:
    """The service account's key in the file that `GOOGLE_APPLICATION_CREDENTIALS` or `GOOGLE_SERVICE_ACCOUNT` names.
    None when there is none, or the file holds another kind of credential. Raises OperatorError when it cannot be read.
    """
    named = environment.get("GOOGLE_APPLICATION_CREDENTIALS") or environment.get("GOOGLE_SERVICE_ACCOUNT")
    if not named:
        return None
    try:
        content = json.loads(Path(named).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise OperatorError(f"The credentials file {named} cannot be read.") from error
    if not isinstance(content, dict) or content.get("type") != "service_account":
        return None
    return GoogleKey(str(content.get("client_email", "")), str(content.get("private_key", "")))


def _profile(path: Path, name: str) -> Mapping[str, str] | None:
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    try:
        parser.read(path, "utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"The file {path} cannot be read as a list of profiles.") from error
    return parser[name] if parser.has_section(name) else None
