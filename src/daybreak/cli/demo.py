"""`daybreakd demo`: a generated platform with a served snapshot, test users and example command lines."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from daybreak.access import api_tokens, operators
from daybreak.access.directory.document import import_document
from daybreak.bootstrap import read_keyring
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.cli.init import make_folder
from daybreak.cli.logs import configure_logging
from daybreak.cli.options import DEFAULT_FILE, Flag, read_state, state_of
from daybreak.cli.output import print_note, print_table, print_text
from daybreak.cli.snapshot import run_once
from daybreak.credentials import totp
from daybreak.demo.check import check_service
from daybreak.demo.directory import DemoDirectory, make_directory
from daybreak.demo.emails import OWNER_EMAIL
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count, format_duration, format_size
from daybreak.domain.errors import OperatorError
from daybreak.settings import Settings, load_settings
from daybreak.snapshots.report import format_share
from daybreak.state.stores import Stores
from daybreak.web.api.examples import download_command, save_token_command
from daybreak.web.listener import claim_address

_AT_LEAST_ONE = Number(gte=1)
_READY_SECONDS = 120.0
_SAVED_FILE = "demo.json"
_LOG = "service.log"


@dataclass(frozen=True, slots=True)
class _PreparedDemo:
    settings: Settings
    environment: Mapping[str, str]
    directory: DemoDirectory
    as_of: datetime
    platform: Path
    token: str

    @property
    def log(self) -> Path:
        """The log file of the service, which keeps log lines out of the printed text."""
        return self.platform.with_name(_LOG)


def demo(
    folder: Annotated[Path, Parameter(help="Folder of the demo, reused when it exists.")] = Path("daybreak-demo"),
    *,
    leaders: Annotated[
        int, Parameter(help="Number of Leaders. The largest 5 % have most of the Members.", validator=_AT_LEAST_ONE)
    ] = 40,
    members: Annotated[int, Parameter(help="Number of Members.", validator=_AT_LEAST_ONE)] = 200_000,
    messages: Annotated[int, Parameter(help="Number of outbound messages.", validator=_AT_LEAST_ONE)] = 1_000_000,
    seed: Annotated[int, Parameter(help="Seed. The same seed generates the same platform.")] = 7,
    port: Annotated[
        int, Parameter(help="Port of the service on 127.0.0.1.", validator=Number(gte=1, lte=65535))
    ] = 8400,
    check: Annotated[Flag, Parameter(help="Compare files, fetched over HTTP, with the source, then exit.")] = False,
) -> int:
    """Generate a platform, build its files and serve them. Prints test users and curl command lines."""
    # Checked first, because the generation takes minutes.
    try:
        claim_address(f"127.0.0.1:{port}")
    except OperatorError as fault:
        raise OperatorError(f"--port {port}: {fault.message}") from fault
    wanted = {"leaders": leaders, "members": members, "messages": messages, "seed": seed}
    prepared = _prepare(folder.resolve(), wanted, port)
    if check:
        return _check(prepared)
    with _running_service(prepared, "serve") as service:
        signal.signal(signal.SIGTERM, lambda _number, _frame: service.terminate())
        # Until the service is ready, Ctrl-C interrupts the command.
        _wait_until_ready(prepared, service)
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
        _print_welcome(prepared)
        return service.wait()


def _prepare(folder: Path, wanted: Mapping[str, int], port: int) -> _PreparedDemo:
    platform, saved_path = folder / "platform", folder / _SAVED_FILE
    saved: dict[str, Any] = json.loads(saved_path.read_text("utf-8")) if saved_path.exists() else {}
    if saved and saved["wanted"] != dict(wanted):
        raise OperatorError(
            f"{folder} contains another demo ({_options(saved['wanted'])}). Use another folder or remove it."
        )
    if not saved:
        # Whole seconds, because the instant is printed and typed again for comparisons.
        as_of = now_utc().replace(microsecond=0)
        _make_platform(platform, wanted, as_of)
        saved = {"wanted": dict(wanted), "as_of": as_of.isoformat()}
        _save(saved_path, saved)
    as_of = datetime.fromisoformat(saved["as_of"])
    address = {"DAYBREAK_BASE_URL": f"http://127.0.0.1:{port}", "DAYBREAK_LISTEN": f"127.0.0.1:{port}"}
    if not (folder / DEFAULT_FILE).exists():
        values = {"base_url": address["DAYBREAK_BASE_URL"], "listen": address["DAYBREAK_LISTEN"]}
        make_folder(folder, {**values, "source.engine": "duckdb", "source.location": "platform"})
    settings = load_settings(folder / DEFAULT_FILE, {**os.environ, **address})
    configure_logging(settings, folder / _LOG)
    directory = make_directory(platform, wanted["seed"])
    print_note("Importing accounts and seats.")
    with state_of(settings) as state:
        import_document(state, directory.document, now_utc())
    token = saved.get("token") or _set_up_seats(settings, directory)
    _save(saved_path, saved | {"token": token})
    _snapshot(settings, as_of)
    return _PreparedDemo(settings, address, directory, as_of, platform, token)


def _make_platform(platform: Path, wanted: Mapping[str, int], as_of: datetime) -> None:
    print_note(f"Generating a platform: {_options(wanted)}.")
    began, numbers = time.monotonic(), count(1)

    def report(table: str, rows: int) -> None:
        print_note(f"  {next(numbers):2}/{len(SOURCE_TABLES)} {table}: {format_count(rows, 'row')}")

    sizes = PlatformSizes(wanted["leaders"], wanted["members"], wanted["messages"])
    summary = make_platform(platform, sizes, seed=wanted["seed"], as_of=as_of, on_progress=report)
    print_note(
        f"  {sum(summary.rows.values()):,} rows, {format_size(summary.size_bytes)} of Parquet in "
        f"{format_duration(time.monotonic() - began)}; the largest 5 % of Leaders have "
        f"{format_share(summary.largest_leaders_share)} of the Members"
    )


def _set_up_seats(settings: Settings, directory: DemoDirectory) -> str:
    """Set up the operator role, a second factor and an API token. Returns the secret of the token."""
    owner = directory.seat(OWNER_EMAIL)

    def work(stores: Stores) -> str:
        now, ring = now_utc(), read_keyring(settings, stores)
        for seat in directory.seats:
            if seat.totp_seed is not None:
                sealed = totp.encrypt_seed(
                    seat.totp_seed, seat_id=seat.seat_id, keyring=ring, random=secrets.token_bytes
                )
                stores.seats.begin_second_factor(seat.seat_id, sealed, now)
                stores.seats.confirm_second_factor(seat.seat_id, 0, (), now)
            if seat.operator:
                known = operators.find_seat(stores, seat.email)
                operators.grant_operator(stores, known, now, second_factor=True, actor="demo")
        found = operators.find_seat(stores, owner.email)
        options = api_tokens.TokenOptions("demo")
        created = api_tokens.new_token(found, owner.client_ids[0], options, now=now, random=os.urandom)
        operators.add_token(stores, created.token, now, actor="demo")
        return created.secret

    with state_of(settings) as state:
        return state.write(work)


def _snapshot(settings: Settings, as_of: datetime) -> None:
    served = read_state(settings, lambda stores: stores.snapshots.current())
    if served is not None:
        print_note(f"Using the existing snapshot {served.snapshot_id}.")
        return
    print_note("Building the nine files of every Leader.")
    snapshot = run_once(settings, as_of=as_of)
    report = snapshot.report
    print_note(
        f"  {format_count(report.rows or 0, 'row')} in {format_count(report.files or 0, 'file')}, "
        f"{format_duration(report.seconds or 0)}; "
        f"{snapshot.snapshot_id} is {snapshot.state}"
    )


def _check(prepared: _PreparedDemo) -> int:
    """Compare files, fetched over HTTP, with the source."""
    with _running_service(prepared, "web") as service:
        _wait_until_ready(prepared, service)
        served = read_state(prepared.settings, lambda stores: stores.snapshots.current())
        faults, as_of = 0, served.as_of if served is not None else prepared.as_of
        checks = check_service(prepared.settings.base_url, prepared.platform, as_of, prepared.directory)
        for description, passed in checks:
            print_text(f"{'ok   ' if passed else 'WRONG'} {description}")
            faults += not passed
    print_text("The files match the source." if not faults else f"{format_count(faults, 'comparison')} failed.")
    return 1 if faults else 0


@contextmanager
def _running_service(prepared: _PreparedDemo, verb: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `daybreakd serve` or `daybreakd web` as a child process that logs to a file."""
    command = [sys.executable, "-m", "daybreak.cli.main", verb, "--config", str(prepared.settings.file)]
    with prepared.log.open("ab") as log:
        service = subprocess.Popen(command, env={**os.environ, **prepared.environment}, stderr=log)
    try:
        yield service
    finally:
        service.terminate()
        service.wait(60)


def _wait_until_ready(prepared: _PreparedDemo, service: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and service.poll() is None:
        try:
            with urllib.request.urlopen(f"{prepared.settings.base_url}/readyz", timeout=5) as answer:  # noqa: S310 - our own address
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise OperatorError(f"The service did not start. See the end of {prepared.log}.")


def _print_welcome(prepared: _PreparedDemo) -> None:
    base, owner = prepared.settings.base_url, prepared.directory.seat(OWNER_EMAIL)
    client_id = owner.client_ids[0]
    files = f"{base}/download/v1/files/{client_id}"
    print_text()
    print_text(f"Daybreak is running at {base}. Press Ctrl-C to stop it.")
    print_text("Sign in there, or run these lines in another terminal.")
    print_text(f"Log: {prepared.log}")
    print_text()
    print_table(
        ("EMAIL", "PASSWORD", "DESCRIPTION", "ACCOUNTS"),
        [(seat.email, seat.password, seat.description, len(seat.client_ids)) for seat in prepared.directory.seats],
        numbers=frozenset({"ACCOUNTS"}),
    )
    for seat in prepared.directory.seats:
        if seat.totp_seed is not None:
            print_text(f"Second factor of {seat.email}: key {totp.manual_key(seat.totp_seed)}")
    if prepared.directory.inactive_client_id is not None:
        print_text(f"Inactive account: {prepared.directory.inactive_client_id}")
    print_text()
    print_text("# One file by API token")
    print_text(save_token_command(prepared.token))
    print_text(download_command(f"{files}/members.csv.gz", "members.csv.gz"))
    print_text("gunzip -c members.csv.gz | head -3")
    print_text()
    print_text("# Another file with email and password: sign in, select an account, download as JSON")
    to_header = (
        "python3 -c 'import json, sys; found = json.load(sys.stdin); "
        'print("Authorization: Bearer", found.get("data", found)["token"])\''
    )
    body = json.dumps({"email": owner.email, "password": owner.password})
    print_text(f"curl -sS --json @- {base}/download/v2/auth/login <<'END' | {to_header} > daybreak-login.txt")
    print_text(body)
    print_text("END")
    print_text(
        f"curl -sS -X PUT -H @daybreak-login.txt --json '{json.dumps({'context': client_id})}' "
        f"{base}/download/v2/auth/context | {to_header} > daybreak-account.txt"
    )
    print_text(download_command(f"{files}/campaigns.json.gz", "campaigns.json.gz", "daybreak-account.txt"))
    print_text("gunzip -c campaigns.json.gz | head -3")
    print_text()
    sys.stdout.flush()


def _save(path: Path, saved: Mapping[str, object]) -> None:
    """Save the data for the next start, with mode 0600 because it contains an API token."""
    temporary = path.with_name(f".{path.name}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(saved, file, indent=2)
    temporary.replace(path)


def _options(wanted: Mapping[str, int]) -> str:
    sizes = ", ".join(f"{wanted[name]:,} {name}" for name in ("leaders", "members", "messages"))
    return f"{sizes}, seed {wanted['seed']}"
