"""Credentials for object stores, from where each cloud's own tools look for them.

Keys and files that lie here. What Amazon gives to a machine for a while is in `machine_keys`; what Google and Azure do
is found by the object store library itself.
"""

from __future__ import annotations

import base64
import configparser
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from daybreak.domain.errors import OperatorError

_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY")


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """A pair of keys, with a session token when they are temporary, and when they expire where that is known."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


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


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """A storage account: its name, the address of its blob service, and its key (base64) where that is at hand."""

    name: str
    endpoint: str
    key: str | None = field(default=None, repr=False)


def aws_keys(environment: Mapping[str, str], home: Path) -> AwsKeys | None:
    """`AWS_ACCESS_KEY_ID` and its fellows, else those of the profile. None when there are neither. Raises OperatorError
    when a file cannot be understood, lacks the profile that is asked for, or gets its keys in a way not known here.
    """
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return AwsKeys(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN") or None,
        )
    profile = _aws_profile(environment, home)
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return AwsKeys(
            profile["aws_access_key_id"], profile["aws_secret_access_key"], profile.get("aws_session_token") or None
        )
    if not environment.get("AWS_PROFILE"):
        return None
    raise OperatorError(
        f"AWS_PROFILE names '{environment['AWS_PROFILE']}', which has no keys in ~/.aws/credentials or ~/.aws/config. "
        "Where it gets them by single sign-on, by another role or by a program, put them into the environment: "
        'eval "$(aws configure export-credentials --format env)".'
    )


def aws_region(environment: Mapping[str, str], home: Path) -> str | None:
    """`AWS_REGION`, `AWS_DEFAULT_REGION`, or the profile's. Raises OperatorError as `aws_keys` does."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if environment.get(name):
            return environment[name]
    return _aws_profile(environment, home).get("region")


def aws_certificates(environment: Mapping[str, str], home: Path) -> bytes | None:
    """The certificates of `AWS_CA_BUNDLE`, else of the profile's `ca_bundle`, that vouch for servers, as PEM; None for
    the system's. Raises OperatorError when they cannot be read.
    """
    named = environment.get("AWS_CA_BUNDLE") or _aws_profile(environment, home).get("ca_bundle")
    if not named:
        return None
    try:
        return Path(named).read_bytes()
    except OSError as error:
        raise OperatorError(f"The certificates of AWS_CA_BUNDLE, {named}, cannot be read.") from error


def aws_domain(region: str) -> str:
    """What the names of Amazon's servers in a region end in."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


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


def azure_account(environment: Mapping[str, str]) -> AzureAccount:
    """The account of `AZURE_STORAGE_CONNECTION_STRING`, else of `AZURE_STORAGE_ACCOUNT_NAME` and
    `AZURE_STORAGE_ACCOUNT_KEY` or what the command line of Azure calls them. Raises OperatorError when no account is
    named or its key cannot be one.
    """
    fields = (each.partition("=") for each in environment.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";"))
    connection = {name.strip().lower(): value.strip() for name, _, value in fields}
    name = connection.get("accountname") or _first(environment, "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
    if not name:
        raise OperatorError(
            "The storage account of files.url is not known: set AZURE_STORAGE_ACCOUNT_NAME, or "
            "AZURE_STORAGE_CONNECTION_STRING."
        )
    key = connection.get("accountkey") or _first(environment, *_AZURE_KEYS)
    try:
        base64.b64decode(key, validate=True)
    except ValueError as error:
        raise OperatorError(f"The key of the storage account {name} is not base64: it was not copied whole.") from error
    scheme = connection.get("defaultendpointsprotocol") or "https"
    domain = connection.get("endpointsuffix") or "core.windows.net"
    endpoint = connection.get("blobendpoint") or _first(environment, "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    return AzureAccount(name, endpoint or f"{scheme}://{name}.blob.{domain}", key or None)


def _first(environment: Mapping[str, str], *names: str) -> str:
    """The first of these variables that holds something, "" when none does."""
    return next(filter(None, (environment.get(name) for name in names)), "")


def _aws_profile(environment: Mapping[str, str], home: Path) -> Mapping[str, str]:
    """What both of Amazon's files say of the profile; the credentials file wins."""
    name = environment.get("AWS_PROFILE") or "default"
    config = Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config")
    credentials = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    found = [_section(config, name if name == "default" else f"profile {name}"), _section(credentials, name)]
    if environment.get("AWS_PROFILE") and found == [None, None]:
        raise OperatorError(f"AWS_PROFILE names '{name}', which is neither in {credentials} nor in {config}.")
    return {key: value for section in found if section is not None for key, value in section.items()}


def _section(path: Path, name: str) -> Mapping[str, str] | None:
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    try:
        parser.read(path, "utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"The file {path} cannot be read as a list of profiles.") from error
    return parser[name] if parser.has_section(name) else None
