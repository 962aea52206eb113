"""The service as a consumer uses it: sign in, choose an account, have its files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from daybreak_client.connection import Connection
from daybreak_client.copies import Tell, bring
from daybreak_client.errors import Refused, Unreachable, WrongUse
from daybreak_client.published import (
    Account,
    Issued,
    Published,
    PublishedFile,
    accounts_of,
    issued_of,
    published_of,
)

_AUTH = "/download/v2/auth"
_FILES = "/download/v1/files"
API_TOKEN_PREFIX = "service_api_"  # noqa: S105 - what tokens begin with
_SNAPSHOTS_AT_MOST = 3


class Daybreak:
    """One service, with an API token, the token of a session, or none before `log_in`. To be closed, or a context."""

    def __init__(self, address: str, token: str | None = None, *, plain_http: bool = False) -> None:
        """Asks nothing yet. Raises WrongUse for an address that is none, or that is http and not of this machine
        without `plain_http`.
        """
        self._connection = Connection(address, plain_http=plain_http)
        self.token = token

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections; a session goes on until `log_out`."""
        self._connection.close()

    @property
    def address(self) -> str:
        """Where the service is, without a slash at its end."""
        return self._connection.address

    def log_in(self, email: str, password: str, code: Callable[[], str]) -> None:
        """Begins a session. `code` is called for the second factor's code if one is owed.

        Raises Refused (`invalid_credentials`, `invalid_code`, `rate_limited`, ...), Unreachable.
        """
        typed = {"email": email, "password": password}
        token, is_whole = self._connection.ask("POST", f"{_AUTH}/login", _begun_of, body=typed)
        if not is_whole:
            sent = {"totp": code()}
            token, _ = self._connection.ask("POST", f"{_AUTH}/login/callback/mfa", _begun_of, token=token, body=sent)
        self.token = token

    def log_out(self) -> None:
        """Ends the session, and every token and link that came from it. Raises Refused, Unreachable."""
        self._connection.ask("DELETE", f"{_AUTH}/logout", lambda _: None, token=self.token)
        self.token = None

    def accounts(self) -> list[Account]:
        """Every active account in the session's reach, by name. Raises Refused (`session_required` with an API token),
        Unreachable.
        """
        return self._connection.ask("GET", f"{_AUTH}/context", accounts_of, token=self.token)

    def account(self, client_id: str) -> AccountFiles:
        """One account's files. A session enters the account for it; an API token is bound to one.

        Raises Refused (`not_your_account`, `account_inactive`, `second_factor_required`), Unreachable, WrongUse.
        """
        token = self.token
        if token is None:
            raise WrongUse("Log in first, or give an API token.")
        if not token.startswith(API_TOKEN_PREFIX):
            token = self._connection.ask(
                "PUT", f"{_AUTH}/context", _entered_of, token=token, body={"context": client_id}
            )
        return AccountFiles(self._connection, client_id.lower(), token)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a folder holds now: of what is `published`, those `files` that were asked for, and of these which had to be
    `brought`.
    """

    published: Published
    files: tuple[PublishedFile, ...]
    brought: tuple[PublishedFile, ...]


class AccountFiles:
    """The files of one account. Made by `Daybreak.account`."""

    def __init__(self, connection: Connection, client_id: str, token: str) -> None:
        self.client_id = client_id
        self._connection = connection
        self._token = token

    def published(self) -> Published:
        """What there is now, and how fresh. Raises NotPublished, Refused, Unreachable."""
        return self._connection.ask("GET", f"{_FILES}/{self.client_id}", published_of, token=self._token)

    def link(self, resource: str, format: str = "csv") -> str:
        """A signed link to a file as it is served now, good for some minutes and for whoever has it: for pandas,
        DuckDB, spreadsheets. Raises WrongUse, NotPublished, Refused, Unreachable.
        """
        (file,) = self.published().select([resource], [format])
        return self._issued(file).url

    def fetch(
        self,
        folder: str | Path,
        resources: Sequence[str] = (),
        formats: Sequence[str] = ("csv",),
        tell: Tell | None = None,
    ) -> Fetched:
        """Brings a folder, which is made if need be, up to what is published: those files alone that it does not have,
        and none before all are there and have their digests. `resources` are all when none is named.

        `tell` is called, from several threads, as octets come. Raises WrongUse, NotPublished, Refused, Unreachable,
        Damaged; the folder's files are then those of before.
        """
        folder = Path(folder)
        for _ in range(_SNAPSHOTS_AT_MOST):
            published = self.published()
            files = published.select(resources, formats)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                return Fetched(published, files, bring(folder, files, self._octets, tell or _untold))
            except _PublishedMeanwhileError:
                continue
        raise Unreachable("The files changed again and again while they were fetched. Try again later.")

    @contextlib.contextmanager
    def _octets(self, file: PublishedFile, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        issued = self._issued(file)
        if issued.sha256 != file.sha256:
            raise _PublishedMeanwhileError
        try:
            with self._connection.octets(issued.url, offset) as octets:
                yield octets
        except Refused as refusal:
            if refusal.code == "file_gone":
                raise _PublishedMeanwhileError from refusal
            raise

    def _issued(self, file: PublishedFile) -> Issued:
        return self._connection.ask("GET", file.path, issued_of, token=self._token)


def _begun_of(answer: Any) -> tuple[str, bool]:
    """The token of a login, and whether it is whole: without an account a second factor is owed."""
    return str(answer["token"]), "client_id" in answer


def _entered_of(answer: Any) -> str:
    return str(answer["data"]["token"])


def _untold(_file: PublishedFile, _size_bytes: int) -> None:
    """For who does not want to be told."""


class _PublishedMeanwhileError(Exception):
    """The file that is asked for is not served any more: another snapshot is."""
