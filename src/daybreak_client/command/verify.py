"""`daybreak verify`: prove that the files in a folder are those that the service published."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from daybreak_client import wire
from daybreak_client.command.options import Access, AsJson, Flag, LockTimeout, Wanted, parse_duration
from daybreak_client.command.output import format_count, format_size, print_json, print_note, print_table
from daybreak_client.command.profile import connect, current_profile
from daybreak_client.command.proof import TrustFile, make_verifier
from daybreak_client.errors import ClientError, Expired, NotProved, Refused, Unsigned, WrongUse
from daybreak_client.folder import LockWait, expanded, locked
from daybreak_client.proof.completeness import PROVED, check_accounts, check_figures, read_figures
from daybreak_client.proof.files import Fault, check_files, expected_files, load_statement
from daybreak_client.proof.memory import Seen
from daybreak_client.proof.statement import STATEMENT_NAME, SignedFile, Statement, parse_statement
from daybreak_client.proof.verifier import SignedStatement, Verifier
from daybreak_client.provenance import Record, record_of, recorded_folders
from daybreak_client.service import Daybreak

_STATES = {
    0: "proved", Refused.exit_code: "refused", Expired.exit_code: "expired", NotProved.exit_code: "wrong",
    Unsigned.exit_code: "unsigned",
}  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Checks:
    """Options that select the checks."""

    complete: Annotated[
        Flag,
        Parameter(help="Also read the files: count rows, add columns, compare them with the statement."),
    ] = False
    offline: Annotated[
        Flag, Parameter(help="Send no request. Uses the trust file of --trust or of an earlier run.")
    ] = False
    at: Annotated[
        str | None, Parameter(help="Check an archive, as of a time at which it was current, such as 2026-11-20T06:00Z.")
    ] = None
    trust: TrustFile = None
    lock_timeout: LockTimeout = "5m"

    def time(self) -> datetime | None:
        """Return the time of `--at`, in UTC unless it has an offset. Raises WrongUse."""
        if self.at is None:
            return None
        try:
            found = datetime.fromisoformat(self.at.strip())
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise WrongUse(f"--at: {self.at!r} is not a time. Use one such as 2026-11-20T06:00Z.") from None


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one folder. `error` is why nothing else is known."""

    folder: Path
    client_id: str
    statement: Statement | None = None
    files: tuple[SignedFile, ...] = ()
    faults: tuple[Fault, ...] = ()
    expired: str = ""
    error: ClientError | None = None

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        return NotProved.exit_code if self.faults else Expired.exit_code if self.expired else 0


def verify(
    folder: Annotated[Path, Parameter(help="Folder of the files. With folders of several accounts, all of them.")] = (
        Path()
    ),
    *,
    wanted: Wanted = Wanted(),
    checks: Checks = Checks(),
    access: Access = Access(),
    as_json: AsJson = False,
    quiet: Annotated[Flag, Parameter(help="Print errors only.")] = False,
) -> int:
    """Prove that the files in a folder are the signed ones of your account: complete, unchanged, current.

    The service signs a statement of each version, with the digest, size and rows
    of every file. This command checks the signature, the account, every digest,
    missing and additional files, mixed versions, and that the version is current.
    It remembers the latest version it has seen and refuses older ones.

    All resources must be in the folder, in the formats of its files, unless --only
    and --format name others. Without statement.json in the folder, the current
    statement of the service counts.

    The first trust file of a service is announced. Compare its SHA-256 over
    another channel, or receive the file over one and use --trust.

    Exit codes: 0 proved, 4 expired (late, or an old copy), 6 wrong, 7 unsigned.

    The statement says what the service read. Only the platform can say that its
    tables are true.
    """
    folder, at = expanded(folder), checks.time()
    if not folder.is_dir():
        raise WrongUse(f"{folder} is not a folder.")
    folders = () if (folder / "daybreak.json").exists() else recorded_folders(folder)
    work = _Work(
        (wanted.resources, wanted.formats),
        make_verifier("", access, checks.trust, require_signed=True, at=at),
        access,
        LockWait(parse_duration("--lock-timeout", checks.lock_timeout), print_note),
        complete=checks.complete,
        several=bool(folders),
    )
    with _service(access, offline=checks.offline) as service:
        results = [work.result(each, service) for each in folders or (folder,)]
    if as_json:
        print_json([_as_json(each) for each in results] if folders else _as_json(results[0]))
    for result in results:
        _print(result, quiet=quiet or as_json, complete=checks.complete)
    codes = {result.exit_code for result in results} - {0}
    return next((code for code in (NotProved.exit_code, Unsigned.exit_code) if code in codes), min(codes, default=0))


def _service(access: Access, *, offline: bool) -> AbstractContextManager[Daybreak | None]:
    """Return the service of the profile, or None for an offline command."""
    return nullcontext() if offline else connect(current_profile(access))


@dataclass(frozen=True, slots=True)
class _Work:
    """Verification of one folder, or of `several` folders of accounts. An error of one does not stop the others."""

    wanted: tuple[tuple[str, ...], tuple[str, ...]]
    verifier: Verifier
    access: Access
    lock_wait: LockWait
    complete: bool
    several: bool

    def result(self, folder: Path, service: Daybreak | None) -> Result:
        """Verify a folder. Faults are in the result; other errors are raised, unless there are several folders."""
        client_id = ""
        try:
            # A fetch replaces files and statement one after the other.
            with locked(folder, self.lock_wait):
                record = record_of(folder)
                client_id = self._expected_account(folder, record)
                signed = self._signed(folder, record, client_id, service)
                statement = signed.statement
                return self._check(Result(folder, statement.client_id, statement, expired=signed.expired), record)
        except ClientError as error:
            if not (self.several or isinstance(error, NotProved | Expired | Unsigned)):
                raise
            return Result(folder, client_id, error=error)

    def _signed(self, folder: Path, record: Record, client_id: str, service: Daybreak | None) -> SignedStatement:
        """Return the verified statement in a folder, or the current one of the service if it has none."""
        local = load_statement(folder)
        if service is None:
            if local is None:
                raise _unsigned(folder)
            claimed = parse_statement(local[0], "")
            verifier = replace(self.verifier, address=self._selected("address") or record.service)
            seen = verifier.stored(claimed.service)
            if claimed.service != seen.trust.service:
                raise NotProved(
                    f"{folder} contains files of {claimed.service}, not of {seen.trust.service}. If that is right, "
                    "select its sign-in with --profile, or its trust file with --trust."
                )
            return _verified(verifier, seen, local, client_id or claimed.client_id)
        if not client_id:
            raise WrongUse("Specify the account with --account CLIENT_ID or DAYBREAK_ACCOUNT.")
        self.verifier.address = service.address
        account = service.account(client_id)
        if self.verifier.at is not None:
            # The current statement was signed later.
            seen = self.verifier.refresh(account.content)
        else:
            current = self.verifier.current(account.content, account.client_id)
            assert current is not None
            if local is None:
                return current
            seen = self.verifier.stored(current.statement.service)
        if local is None:
            raise _unsigned(folder)
        return _verified(self.verifier, seen, local, account.client_id)

    def _expected_account(self, folder: Path, record: Record) -> str:
        """Return the account of a folder, empty if only its statement can say it. Raises NotProved for another one."""
        named = self.access.account or (not self.several and os.environ.get("DAYBREAK_ACCOUNT"))
        if not named:
            named = folder.name if wire.is_uuid(folder.name) else self._selected("client_id")
        named = named.strip().lower()
        if named and record.client_id not in {"", named}:
            raise NotProved(
                f"{folder} contains files of account {record.client_id}, not of {named}. If that is right, use "
                f"--account {record.client_id}."
            )
        return named or record.client_id

    def _selected(self, name: Literal["address", "client_id"]) -> str:
        """Return the service or account of the profile, empty without one."""
        try:
            return getattr(current_profile(self.access), name) or ""
        except WrongUse:
            return ""

    def _check(self, result: Result, record: Record) -> Result:
        statement = result.statement
        assert statement is not None
        files = expected_files(result.folder, statement, *self.wanted)
        faults = list(check_files(result.folder, statement, files, record.versions))
        if self.complete:
            listed = {file.resource for file in statement.files.values()}
            missing = sorted(set(self.wanted[0] or wire.RESOURCES) - listed)
            text = f"the statement of {statement.edition} lists no file of it."
            faults += [Fault(resource, "incomplete", text) for resource in missing]
            wrong = {fault.file for fault in faults}
            for file in files:
                if file.name not in wrong:
                    figures = read_figures(result.folder / file.name, file)
                    faults += check_figures(file, figures, statement.completeness)
            if statement.completeness is None:
                faults.append(Fault(result.folder.name, "incomplete", "the statement has no row accounting."))
            else:
                faults += check_accounts(statement.completeness, {file.resource for file in files})
        return replace(result, files=files, faults=tuple(faults))


def _verified(verifier: Verifier, seen: Seen, local: tuple[bytes, bytes], client_id: str) -> SignedStatement:
    """Return the verified statement of a folder. Errors name its file."""
    try:
        return verifier.verify(seen, *local, client_id)
    except NotProved as fault:
        raise NotProved(f"{STATEMENT_NAME}: {fault.message}") from None


def _unsigned(folder: Path) -> Unsigned:
    return Unsigned(f"{folder} has no statement.json with its signature, statement.json.sig.")


def _print(result: Result, *, quiet: bool, complete: bool) -> None:
    prefix = f"daybreak: {result.folder}: "
    if result.error is not None:
        print_note(f"{prefix}{result.error.message}")
        return
    statement = result.statement
    assert statement is not None
    faulty = {fault.file: fault.code for fault in result.faults}
    if not quiet:
        print_table(
            ("file", "rows", "size", "state"),
            [
                (each.name, format_count(each.rows), format_size(each.size_bytes), faulty.get(each.name, "proved"))
                for each in result.files
            ],
            frozenset({"rows", "size"}),
        )
        if complete:
            _print_accounts(statement)
    for fault in result.faults:
        print_note(f"{prefix}{fault.file}: {fault.message}")
    if result.expired:
        print_note(f"{prefix}{result.expired}")
    if not quiet and not result.exit_code:
        print_note(
            f"Proved: {len(result.files)} files of account {statement.client_id}, {statement.edition} of "
            f"{statement.service}. Data as of {statement.as_of:%Y-%m-%d %H:%M} UTC, current until "
            f"{statement.expires_at:%Y-%m-%d %H:%M} UTC."
        )


def _print_accounts(statement: Statement) -> None:
    """Print where each row of the source is."""
    found = statement.completeness
    if found is None:
        return
    rows = [
        (resource, table, format_count(account.source), format_count(account.exported),
         ", ".join(f"{rule} {format_count(count)}" for rule, count in account.excluded.items()))
        for resource, tables in found.tables.items()
        for table, account in tables.items()
    ]  # fmt: skip
    print_table(("resource", "from table", "source", "exported", "excluded"), rows, frozenset({"source", "exported"}))
    for resource in wire.RESOURCES:
        if found.status_of(resource) != PROVED:
            print_note(f"{resource}: the service does not prove that all rows are in it ({found.status_of(resource)}).")


def _as_json(result: Result) -> dict[str, object]:
    found: dict[str, object] = {
        "folder": str(result.folder),
        "client_id": result.client_id,
        "state": _STATES.get(result.exit_code, "failed"),
    }
    if result.error is not None:
        return {**found, "error": {"code": found["state"], "message": result.error.message}}
    statement = result.statement
    assert statement is not None
    completeness = statement.completeness
    return {
        **found,
        "service": statement.service,
        "version": statement.edition.version,
        "revision": statement.edition.revision,
        "as_of": statement.as_of.isoformat(),
        "signed_at": statement.signed_at.isoformat(),
        "expires_at": statement.expires_at.isoformat(),
        "expired": result.expired or None,
        "files": [asdict(each) for each in result.files],
        "faults": [asdict(each) for each in result.faults],
        "completeness": None if completeness is None else asdict(completeness),
    }
