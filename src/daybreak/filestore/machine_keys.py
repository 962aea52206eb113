"""Amazon keys that a machine is given for a while: by web identity, by its container or by its instance.

The object store library could find them by itself, but then nothing here could sign links with them: a link's type,
encoding and file name are part of what is signed. See "AssumeRoleWithWebIdentity" (AWS STS), "Container credential
provider" (AWS SDKs) and "Retrieve security credentials from instance metadata" (Amazon EC2).
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx

from daybreak.domain.errors import FileStoreError, Unavailable
from daybreak.filestore.cloud_credentials import AwsKeys, aws_domain

_REFRESH_BEFORE = timedelta(minutes=5)
_ASK_AGAIN_SECONDS = 10.0
_TRIES = 2
# Where there is no such service nobody answers, and a second tells; Amazon's own tools wait as long.
_NEAR_SECONDS = 1.0
_FAR_SECONDS = 10.0
_CONTAINER = "http://169.254.170.2"
_INSTANCE = "http://169.254.169.254"
_ROLES = "/latest/meta-data/iam/security-credentials/"
_XML = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken|Expiration)>([^<]+)</")
_REASON_LENGTH = 300
_NOWHERE = (
    "There are no credentials for files.url: no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, no profile with keys in "
    "~/.aws, no web identity, and no role of a container or an instance."
)


class MachineKeys:
    """Keys that are asked for again five minutes before they expire. Safe to use from several threads."""

    def __init__(self, environment: Mapping[str, str], region: str, clock: Callable[[], datetime]) -> None:
        self._environment = environment
        self._region = region
        self._clock = clock
        self._keys: AwsKeys | None = None
        self._failure: FileStoreError | Unavailable | None = None
        self._ask_after = 0.0
        self._lock = threading.Lock()

    def fresh(self) -> bool:
        """Whether `keys` answers at once."""
        return self._last(_REFRESH_BEFORE) or time.monotonic() < self._ask_after

    def keys(self) -> AwsKeys:
        """Keys that are good now. Raises FileStoreError when nobody gives any, Unavailable when who does is away."""
        with self._lock:
            if not self.fresh():
                try:
                    self._keys, self._failure = self._ask(), None
                except (FileStoreError, Unavailable) as failure:
                    self._failure = failure
                self._ask_after = time.monotonic() + _ASK_AGAIN_SECONDS
            # What is about to expire is used as long as it lasts.
            if self._keys is not None and (self._failure is None or self._last(timedelta())):
                return self._keys
            raise self._failure or FileStoreError(_NOWHERE)

    def for_library(self) -> dict[str, Any]:
        """The same, as the object store library wants it."""
        keys = self.keys()
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.session_token,
            "expires_at": keys.expires_at,
        }

    def _last(self, further: timedelta) -> bool:
        keys = self._keys
        return keys is not None and (keys.expires_at is None or keys.expires_at > self._clock() + further)

    def _ask(self) -> AwsKeys:
        named = self._environment.get
        if named("AWS_WEB_IDENTITY_TOKEN_FILE") and named("AWS_ROLE_ARN"):
            return self._of_web_identity()
        if named("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") or named("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
            return self._of_container()
        return self._of_instance()

    def _of_web_identity(self) -> AwsKeys:
        given = self._environment.get("AWS_ENDPOINT_URL_STS")
        server = given or f"https://sts.{self._region}.{aws_domain(self._region)}"
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self._environment["AWS_ROLE_ARN"],
            "RoleSessionName": self._environment.get("AWS_ROLE_SESSION_NAME") or "daybreak",
            "WebIdentityToken": _content(self._environment["AWS_WEB_IDENTITY_TOKEN_FILE"]),
        }
        with _Giver("The role of AWS_ROLE_ARN", _FAR_SECONDS, near=False) as giver:
            text = giver.answer("POST", f"{server.rstrip('/')}/", data=form)
            return giver.keys(dict(_XML.findall(text)))

    def _of_container(self) -> AwsKeys:
        environment = self._environment
        relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = f"{_CONTAINER}{relative}" if relative else environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
        file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = _content(file) if file else environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        with _Giver("The container's role", _FAR_SECONDS, near=True) as giver:
            return giver.keys_in_json(giver.answer("GET", url, headers={"Authorization": token} if token else {}))

    def _of_instance(self) -> AwsKeys:
        if self._environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise FileStoreError(_NOWHERE)
        server = (self._environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _INSTANCE).rstrip("/")
        with _Giver("The instance's role", _NEAR_SECONDS, near=True) as giver:
            try:
                lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
                headers = {
                    "X-aws-ec2-metadata-token": giver.answer("PUT", f"{server}/latest/api/token", headers=lifetime)
                }
                role = giver.answer("GET", f"{server}{_ROLES}", headers=headers).strip()
                return giver.keys_in_json(giver.answer("GET", f"{server}{_ROLES}{role}", headers=headers))
            except (FileStoreError, Unavailable) as error:
                if self._keys is not None:
                    raise
                raise FileStoreError(f"{_NOWHERE} ({error.message})") from error


class _Giver:
    """Whoever gives the keys. A `near` one is never behind a proxy."""

    def __init__(self, name: str, seconds: float, *, near: bool) -> None:
        self._name = name
        self._client = httpx.Client(trust_env=not near, timeout=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def answer(self, method: str, url: str, **rest: Any) -> str:
        """The text of a good answer. Raises FileStoreError for a refusal, Unavailable."""
        reason = ""
        for _ in range(_TRIES):
            try:
                answer = self._client.request(method, url, **rest)
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                continue
            if answer.is_success:
                return answer.text
            reason = f"{answer.status_code} {' '.join(answer.text.split())[:_REASON_LENGTH]}".strip()
            if not answer.is_server_error:
                raise FileStoreError(f"{self._name} gives no credentials: {reason}.")
        raise Unavailable(f"{self._name} gives no credentials: {reason}.", code="files_unavailable")

    def keys_in_json(self, text: str) -> AwsKeys:
        """As `keys`."""
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        return self.keys(found if isinstance(found, dict) else {})

    def keys(self, found: Mapping[str, Any]) -> AwsKeys:
        """The keys in an answer. Raises FileStoreError when they are not there."""
        try:
            return AwsKeys(
                found["AccessKeyId"],
                found["SecretAccessKey"],
                found.get("Token") or found.get("SessionToken"),
                datetime.fromisoformat(found["Expiration"]).astimezone(UTC),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileStoreError(f"{self._name} gives something else than credentials.") from error


def _content(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise FileStoreError(f"The token file {path} cannot be read.") from error
