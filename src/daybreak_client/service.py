"""A Daybreak service: sign in, select an account, fetch its files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from daybreak_client import wire
from daybreak_client.connection import Connection
from daybreak_client.errors import NotProved, Refused, Unreachable, WrongUse
from daybreak_client.folder import (
    NO_WAIT,
    LockWait,
    ProgressCallback,
    errors_named,
    expanded,
    locked,
    missing_files,
    update_folder,
)
from daybreak_client.proof.files import save_statement
from daybreak_client.proof.verifier import (
    TRUST_PATH,
    SignedStatement,
    Verifier,
    check_manifest,
    proved_feed,
)
from daybreak_client.provenance import Provenance
from daybreak_client.published import (
    Account,
    Feed,
    Issued,
    PublishedFile,
    PublishedSnapshot,
    SnapshotChanged,
    parse_accounts,
    parse_feed,
    parse_link,
    parse_manifest,
)
from daybreak_client.tables import Table, parse_tables

_AUTH = "/download/v2/auth"
_FILES = "/download/v1/files"
_SCHEMA = "/download/v1/schema"
_S3 = "/download/v1/s3-credentials"
API_TOKEN_PREFIX = "service_api_"  # noqa: S105 - a prefix, not a token
_EXAMPLE_ID = "7d909222-adf5-4547-93e0-e8f60c50f980"
_MAX_SNAPSHOT_CHANGES = 3
_MAX_CODES = 3
_MISSING = (404, 410)


class Daybreak:
    """A service, with an API token, a session token, or none before `log_in`. Must be closed; is a context manager."""

    def __init__(self, address: str, token: str | None = None, *, plain_http: bool = False) -> None:
        """Prepare connections to the URL of a service, without a request.

        Raises WrongUse for an invalid URL, and for plain HTTP over a network unless `plain_http` allows it.
        """
        self._connection = Connection(address, plain_http=plain_http)
        self.token = token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The session stays valid until `log_out`."""
        self._connection.close()

    @property
    def address(self) -> str:
        """URL of the service, without a final slash."""
        return self._connection.address

    def log_in(self, email: str, password: str, code: Callable[[], str]) -> None:
        """Start a session. `code` is called for the code of the second factor if the login needs one.

        After a wrong code it is called again, up to three times in all; an empty code ends the login. Raises Refused
        (`invalid_credentials`, `invalid_code`, `rate_limited`, ...), WrongUse for an empty first code, Unreachable.
        """
        credentials = {"email": email, "password": password}
        token, complete = self._connection.request("POST", f"{_AUTH}/login", _parse_login, body=credentials)
        self.token = token if complete else self._complete_login(token, code)

    def _complete_login(self, pending_token: str, code: Callable[[], str]) -> str:
        refusal: Refused | None = None
        for _ in range(_MAX_CODES):
            typed = code()
            if not typed:
                raise refusal or WrongUse("The login needs a code. Sign in again and type it.")
            try:
                token, _ = self._connection.request(
                    "POST", f"{_AUTH}/login/callback/mfa", _parse_login, token=pending_token, body={"totp": typed}
                )
            except Refused as wrong:
                if wrong.code != "invalid_code":
                    raise
                refusal = wrong
            else:
                return token
        assert refusal is not None
        raise refusal

    def log_out(self) -> None:
        """End the session with all its tokens and links. Raises Refused, Unreachable, WrongUse."""
        self._connection.request("DELETE", f"{_AUTH}/logout", lambda _: None, token=self._required_token())
        self.token = None

    def accounts(self) -> list[Account]:
        """Return every active account of the user, by name.

        Raises Refused (`session_required` with an API token), Unreachable, WrongUse.
        """
        return self._connection.request("GET", f"{_AUTH}/context", parse_accounts, token=self._required_token())

    def schema(self) -> dict[str, Any]:
        """Return the columns of the files as a Frictionless Data Package. Needs no token. Raises Unreachable."""
        return self._connection.request("GET", _SCHEMA, _parse_package)

    def create_tables(self, dialect: str) -> str:
        """Return CREATE TABLE statements for a database such as `postgresql` or `snowflake`. Needs no token.

        Raises WrongUse for a database that the service does not know, Unreachable.
        """
        try:
            return self._connection.request("GET", f"{_SCHEMA}?{urlencode({'dialect': dialect})}", wire.create_tables)
        except Refused as refusal:
            raise WrongUse(refusal.message) from refusal

    def s3_credentials(self) -> dict[str, object]:
        """Return credentials for the S3 endpoint, in the format of `credential_process`. They expire after an hour.

        Needs an API token. Raises Refused (`not_found` if the service has no such endpoint), Unreachable, WrongUse.
        """
        return self._connection.request("POST", _S3, _parse_s3_credentials, token=self._required_token())

    def account(self, client_id: str) -> AccountFiles:
        """Return the files of an account. A session switches to it; an API token belongs to one account.

        Raises Refused (`not_your_account`, `account_inactive`, `second_factor_required`), Unreachable, WrongUse.
        """
        token, client_id = self._required_token(), client_id.strip().lower()
        if not wire.is_uuid(client_id):
            raise WrongUse(f"{client_id!r} is not the client_id of an account, such as {_EXAMPLE_ID}.")
        if not token.startswith(API_TOKEN_PREFIX):
            token = self._connection.request(
                "PUT", f"{_AUTH}/context", _parse_switch, token=token, body={"context": client_id}
            )
        return AccountFiles(self._connection, client_id, token)

    def _required_token(self) -> str:
        if self.token is None:
            raise WrongUse("Sign in first, or pass an API token.")
        return self.token


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Result of a fetch: the `published` snapshot, the requested `files` of it, and those that were `downloaded`.

    After a dry run, `downloaded` are those that a fetch would download. `previous_version` is the version of the folder
    before, None for the first fetch.
    """

    published: PublishedSnapshot
    files: tuple[PublishedFile, ...]
    downloaded: tuple[PublishedFile, ...]
    previous_version: int | None = None


class AccountFiles:
    """The files of one account, as returned by `Daybreak.account`."""

    def __init__(self, connection: Connection, client_id: str, token: str) -> None:
        self.client_id = client_id
        # Set it to verify everything that the service publishes.
        self.verifier: Verifier | None = None
        self._connection = connection
        self._token = token
        self._signed: SignedStatement | None = None

    @property
    def address(self) -> str:
        """URL of the service, without a final slash."""
        return self._connection.address

    def published(self) -> PublishedSnapshot:
        """Return the current snapshot. Raises NotPublished, Refused, Unreachable.

        With a `verifier`, also raises NotProved, Expired, Unsigned.
        """
        for _ in range(_MAX_SNAPSHOT_CHANGES):
            found = self._connection.request("GET", f"{_FILES}/{self.client_id}", parse_manifest, token=self._token)
            self._require_own(found.client_id)
            self._signed = signed = self._current_statement()
            if signed is None:
                return found
            with contextlib.suppress(SnapshotChanged):
                check_manifest(found, signed.statement)
                signed.check_fresh()
                return found
        raise NotProved("The service lists the files of one version with the statement of another.")

    def _current_statement(self) -> SignedStatement | None:
        """Return the verified current statement, None without a verifier and for files that may be unsigned."""
        if self.verifier is None or not self.verifier.applies():
            return None
        return self.verifier.current(self.content, self.client_id)

    def content(self, path: str) -> bytes | None:
        """Return a small file of the service, None if it does not exist. Raises Refused, Unreachable, WrongUse."""
        return self._connection.content(path, token=None if path.startswith(TRUST_PATH) else self._token)

    def link(self, resource: str, format: str = "csv") -> str:
        """Return a signed link to a current file, for pandas, DuckDB or a spreadsheet.

        Anyone with the link can download the file until it expires, after some minutes. Raises WrongUse, NotPublished,
        Refused, Unreachable.
        """
        (file,) = self.published().select([resource], [format])
        return self._issued(file).url

    def fetch(
        self,
        folder: str | Path,
        resources: Sequence[str] = (),
        formats: Sequence[str] = ("csv",),
        on_progress: ProgressCallback | None = None,
        *,
        force: bool = False,
        dry_run: bool = False,
        lock_wait: LockWait | None = None,
    ) -> FetchResult:
        """Update a folder to the current snapshot. Only missing and changed files are downloaded.

        Files are replaced after all are downloaded and verified; an error leaves them unchanged. Without
        `resources`, all are fetched. `on_progress` is called from several threads. `force` replaces or deletes the
        files of another account. `dry_run` downloads nothing. Raises WrongUse, NotPublished, Refused, Unreachable,
        Damaged, Busy.
        """
        folder = expanded(Path(folder))
        for _ in range(_MAX_SNAPSHOT_CHANGES):
            published = self.published()
            files = published.select(resources, formats)
            provenance = Provenance(self._connection.address, published)
            if dry_run:
                previous = provenance.check(folder, force=force)
                return FetchResult(published, files, missing_files(folder, files), previous)
            with errors_named(folder), locked(folder, lock_wait or NO_WAIT):
                previous = provenance.check(folder, force=force)
                try:
                    downloaded = update_folder(folder, files, self._download, on_progress)
                except SnapshotChanged:
                    continue
                provenance.save(folder, files)
                save_statement(folder, self._signed)
            return FetchResult(published, files, downloaded, previous)
        raise Unreachable("New snapshots were published repeatedly during the fetch. Try again later.")

    def feed(self, since: int | None = None, etag: str | None = None) -> Feed | None:
        """Return the feed of deltas, with the entries after version `since`; None if it still has this `etag`.

        A `since` outside the chain returns a feed with `closed_reason`. Raises NotPublished, Refused, Unreachable. With
        a `verifier`, entries without a signed statement are left out; also raises NotProved, Expired, Unsigned.
        """
        query = "" if since is None else f"?since={since}"
        path = f"{_FILES}/{self.client_id}/deltas{query}"
        try:
            feed = self._connection.request_if_changed(path, parse_feed, token=self._token, etag=etag)
            if feed is None:
                if self.verifier is not None:
                    self.verifier.check_seen_fresh(self.client_id)
                return None
            self._require_own(feed.client_id)
            signed = self._current_statement()
            if signed is None:
                return feed
            signed.check_fresh()
            return proved_feed(feed, signed.statement, self.content)
        except Refused as refusal:
            if refusal.code != "chain_closed":
                raise
            return Feed(closed_reason=refusal.message)

    def tables(self) -> tuple[Table, ...]:
        """Return the columns and keys of the resources. Raises Unreachable, WrongUse."""
        return self._connection.request("GET", _SCHEMA, parse_tables)

    def download(
        self, folder: Path, files: Sequence[PublishedFile], on_progress: ProgressCallback | None = None
    ) -> None:
        """Download files to a folder that the caller has locked, and compare their digests.

        Raises SnapshotChanged when the service replaced one of them, Refused, Unreachable, Damaged.
        """
        update_folder(folder, files, self._download, on_progress)

    @contextlib.contextmanager
    def _download(self, file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        try:
            issued = self._issued(file)
            if issued.sha256 != file.sha256:
                raise SnapshotChanged
            with self._connection.download(issued.url, offset) as content:
                yield content
        except Refused as refusal:
            # A delta that is not kept is an unknown path.
            withdrawn = file.is_delta and refusal.status in _MISSING
            if withdrawn or refusal.code == "file_gone":
                raise SnapshotChanged from refusal
            raise

    def _require_own(self, client_id: str) -> None:
        if client_id != self.client_id:
            raise WrongUse("The service returned another account than the requested one. Contact its operator.")

    def _issued(self, file: PublishedFile) -> Issued:
        address = self._connection.address
        return self._connection.request("GET", file.path, lambda found: parse_link(found, address), token=self._token)


def _parse_login(response: Any) -> tuple[str, bool]:
    """Return the token of a login, and whether it is complete. A pending login has no account."""
    response = wire.mapping(response)
    return wire.token(response["token"]), "client_id" in response


def _parse_switch(response: Any) -> str:
    return wire.token(wire.mapping(wire.mapping(response)["data"])["token"])


def _parse_package(response: Any) -> dict[str, Any]:
    """Return a data package, whose tables are valid."""
    parse_tables(response)
    return dict(wire.mapping(response))


def _parse_s3_credentials(response: Any) -> dict[str, object]:
    response = wire.mapping(response)
    secrets = {name: wire.token(response[name]) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")}
    expiration = wire.instant(response["Expiration"])
    return {"Version": 1, **secrets, "Expiration": f"{expiration:%Y-%m-%dT%H:%M:%SZ}"}
