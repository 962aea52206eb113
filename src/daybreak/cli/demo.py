"""`daybreakd demo`: from nothing to a served snapshot, with people to sign in as and lines to paste."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from daybreak.cli.output import note, say, say_table, shown_bytes, shown_seconds
from daybreak.domain.errors import OperatorError
from daybreak.snapshots.report import count, figure

if TYPE_CHECKING:
    from daybreak.demo.directory import DemoDirectory
    from daybreak.settings import Settings

_AT_LEAST_ONE = Number(gte=1)
_READY_SECONDS = 120.0
_MADE = "demo.json"
_LOG = "service.log"


@dataclass(frozen=True, slots=True)
class _Stage:
    """A demo folder that is ready to be served."""

    settings: "Settings"
    environment: Mapping[str, str]
    directory: "DemoDirectory"
    as_of: datetime
    platform: Path
    token: str

    @property
    def log(self) -> Path:
        """Where the service writes its log lines, so that they do not run through what is printed."""
        return self.platform.with_name(_LOG)


def demo(
    folder: Annotated[Path, Parameter(help="Where everything goes; used again when it is there.")] = Path(
        "daybreak-demo"
    ),
    *,
    leaders: Annotated[
        int, Parameter(help="Leaders; the largest twentieth has most of the Members.", validator=_AT_LEAST_ONE)
    ] = 40,
    members: Annotated[int, Parameter(help="Members of all Leaders.", validator=_AT_LEAST_ONE)] = 200_000,
    messages: Annotated[int, Parameter(help="Outbound messages.", validator=_AT_LEAST_ONE)] = 1_000_000,
    seed: Annotated[int, Parameter(help="The same seed gives the same platform.")] = 7,
    port: Annotated[
        int, Parameter(help="Where the service listens on 127.0.0.1.", validator=Number(gte=1, lte=65535))
    ] = 8400,
    check: Annotated[
        bool, Parameter(negative="", help="Fetch files over HTTP, compare them with the source, and end.")
    ] = False,
) -> int:
    """Make a believable platform, snapshot it and serve it; prints people to sign in as and curl lines to paste."""
    from daybreak.web.listeners import open_listeners

    # Before minutes of work: a port that is taken.
    try:
        for listener in open_listeners(f"127.0.0.1:{port}", 1):
            listener.close()
    except OperatorError as fault:
        raise OperatorError(f"--port {port}: {fault.message}") from fault
    wanted = {"leaders": leaders, "members": members, "messages": messages, "seed": seed}
    stage = _prepare(folder.resolve(), wanted, port)
    if check:
        return _check(stage)
    from daybreak.cli.serve import serve_settings

    return serve_settings(stage.settings, on_ready=lambda: _say_welcome(stage))


def _prepare(folder: Path, wanted: Mapping[str, int], port: int) -> _Stage:
    from daybreak.bootstrap import now_utc
    from daybreak.cli.directory import import_directory
    from daybreak.cli.init import make_folder
    from daybreak.cli.logs import configure_logging
    from daybreak.cli.options import DEFAULT_FILE
    from daybreak.demo.directory import make_directory
    from daybreak.settings import load_settings

    platform, made_path = folder / "platform", folder / _MADE
    made: dict[str, Any] = json.loads(made_path.read_text("utf-8")) if made_path.exists() else {}
    if made and made["wanted"] != dict(wanted):
        raise OperatorError(
            f"{folder} holds another demo ({_options(made['wanted'])}): name another folder or remove it."
        )
    if not made:
        # Whole seconds: the instant is printed, and typed again for comparisons.
        as_of = now_utc().replace(microsecond=0)
        _make_platform(platform, wanted, as_of)
        made = {"wanted": dict(wanted), "as_of": as_of.isoformat()}
        _keep(made_path, made)
    as_of = datetime.fromisoformat(made["as_of"])
    address = {"DAYBREAK_BASE_URL": f"http://127.0.0.1:{port}", "DAYBREAK_LISTEN": f"127.0.0.1:{port}"}
    if not (folder / DEFAULT_FILE).exists():
        values = {"base_url": address["DAYBREAK_BASE_URL"], "listen": address["DAYBREAK_LISTEN"]}
        make_folder(folder, {**values, "source.engine": "duckdb", "source.location": "platform"})
    settings = load_settings(folder / DEFAULT_FILE, {**os.environ, **address})
    configure_logging(settings, folder / _LOG)
    directory = make_directory(platform, wanted["seed"])
    note("Importing accounts and seats.")
    import_directory(settings, directory.document)
    token = made.get("token") or _settle_seats(settings, directory)
    _keep(made_path, made | {"token": token})
    _snapshot(settings, as_of)
    return _Stage(settings, address, directory, as_of, platform, token)


def _make_platform(platform: Path, wanted: Mapping[str, int], as_of: datetime) -> None:
    from daybreak.demo.platform import PlatformProgress, make_platform

    note(f"Making a platform of {_options(wanted)}.")
    began = time.monotonic()

    def tell(progress: PlatformProgress) -> None:
        note(f"  {progress.tables_done:2}/{progress.tables_total} {progress.table}: {progress.rows:,} rows")

    made = make_platform(
        platform,
        leaders=wanted["leaders"],
        members=wanted["members"],
        messages=wanted["messages"],
        seed=wanted["seed"],
        as_of=as_of,
        on_progress=tell,
    )
    note(
        f"  {sum(made.rows.values()):,} rows, {shown_bytes(made.size_bytes)} of Parquet in "
        f"{shown_seconds(time.monotonic() - began)}; the largest 5 % of Leaders have "
        f"{made.largest_leaders_share:.0%} of the Members"
    )


def _settle_seats(settings: "Settings", directory: "DemoDirectory") -> str:
    """Operator role, second factor and one API token; gives the token's secret."""
    from daybreak.access import api_tokens, operators
    from daybreak.bootstrap import now_utc, open_keyring, open_state
    from daybreak.credentials import totp
    from daybreak.demo.directory import OWNER_EMAIL
    from daybreak.ports.state import Stores

    keyring, owner = open_keyring(settings), directory.seat(OWNER_EMAIL)

    def work(stores: Stores) -> str:
        now = now_utc()
        for seat in directory.seats:
            if seat.operator:
                operators.set_operator(
                    stores, operators.seat_named(stores, seat.email), now, operator=True, actor="demo"
                )
            if seat.totp_seed is not None:
                ring = keyring.current()
                sealed = totp.seal(seat.totp_seed, seat_id=seat.seat_id, keyring=ring, random=secrets.token_bytes)
                stores.seats.begin_second_factor(seat.seat_id, sealed, now)
                stores.seats.confirm_second_factor(seat.seat_id, 0, (), now)
        found = operators.seat_named(stores, owner.email)
        minted = api_tokens.mint(found, owner.client_ids[0], now=now, random=os.urandom, name="demo", expires_at=None)
        api_tokens.add_by_operator(stores, minted.token, now, actor="demo")
        return minted.secret

    with closing(open_state(settings)) as state:
        return state.write(work)


def _snapshot(settings: "Settings", as_of: datetime) -> None:
    from daybreak.bootstrap import open_state
    from daybreak.cli.snapshot import run_once

    with closing(open_state(settings)) as state:
        served = state.read(lambda stores: stores.snapshots.current())
    if served is not None:
        note(f"Using the snapshot {served.snapshot_id} that is there.")
        return
    note("Making the nine files of every Leader.")
    made = run_once(settings, as_of=as_of)
    rows, files = count(made.report, "rows"), count(made.report, "files")
    took = shown_seconds(figure(made.report, "seconds"))
    note(f"  {rows:,} rows in {files:,} files, {took}; {made.snapshot_id} is {made.state}")


def _check(stage: _Stage) -> int:
    """Serves in a process of its own, checks from outside, and ends the service again."""
    from daybreak.demo.check import check_service

    command = [sys.executable, "-m", "daybreak.cli.main", "serve", "--no-builder", "--config", str(stage.settings.file)]
    with stage.log.open("ab") as log:
        service = subprocess.Popen(command, env={**os.environ, **stage.environment}, stderr=log)
    try:
        _wait_until_ready(stage, service)
        faults = 0
        for checked in check_service(stage.settings.base_url, stage.platform, _served_as_of(stage), stage.directory):
            say(f"{'ok   ' if checked.good else 'WRONG'} {checked.what}")
            faults += not checked.good
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(60)
    say("The files are what the source says." if not faults else f"{faults} comparisons failed.")
    return 1 if faults else 0


def _served_as_of(stage: _Stage) -> datetime:
    from daybreak.bootstrap import open_state

    with closing(open_state(stage.settings)) as state:
        served = state.read(lambda stores: stores.snapshots.current())
    return served.as_of if served is not None else stage.as_of


def _wait_until_ready(stage: _Stage, service: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and service.poll() is None:
        try:
            with urllib.request.urlopen(f"{stage.settings.base_url}/readyz", timeout=5) as answer:  # noqa: S310 - our own address
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    raise OperatorError(f"The service did not start: see the end of {stage.log}.")


def _say_welcome(stage: _Stage) -> None:
    from daybreak.credentials.totp import manual_key
    from daybreak.demo.directory import OWNER_EMAIL

    base, owner = stage.settings.base_url, stage.directory.seat(OWNER_EMAIL)
    client_id = owner.client_ids[0]
    files = f"{base}/download/v1/files/{client_id}"
    say()
    say(f"Daybreak serves {base} (Ctrl-C ends it). Sign in there, or paste lines below into another terminal.")
    say(f"Its log: {stage.log}")
    say()
    say_table(
        ("EMAIL", "PASSWORD", "WHAT", "ACCOUNTS"),
        [(seat.email, seat.password, seat.what, len(seat.client_ids)) for seat in stage.directory.seats],
        numbers=frozenset({"ACCOUNTS"}),
    )
    for seat in stage.directory.seats:
        if seat.totp_seed is not None:
            say(f"Second factor of {seat.email}: key {manual_key(seat.totp_seed)}")
    if stage.directory.inactive_client_id is not None:
        say(f"Inactive account: {stage.directory.inactive_client_id}")
    say()
    say("# One file by API token")
    say(f"curl -sSL -o members.csv.gz -H 'Authorization: Bearer {stage.token}' {files}/members.csv.gz")
    say("gunzip -c members.csv.gz | head -3")
    say()
    say("# The same by email and password: log in, choose an account, download as JSON")
    pick = 'python3 -c \'import json,sys; d=json.load(sys.stdin); print(d.get("data", d)["token"])\''
    body = json.dumps({"email": owner.email, "password": owner.password})
    say(f"TOKEN=$(curl -sS {base}/download/v2/auth/login -H 'content-type: application/json' -d '{body}' | {pick})")
    say(
        f'TOKEN=$(curl -sS -X PUT {base}/download/v2/auth/context -H "Authorization: Bearer $TOKEN" '
        f"-H 'content-type: application/json' -d '{json.dumps({'context': client_id})}' | {pick})"
    )
    say(f'curl -sSL -o campaigns.json.gz -H "Authorization: Bearer $TOKEN" {files}/campaigns.json.gz')
    say("gunzip -c campaigns.json.gz | head -3")
    say()
    sys.stdout.flush()


def _keep(path: Path, made: Mapping[str, object]) -> None:
    """Writes what a second start needs, readable by its owner alone: an API token is in it."""
    making = path.with_name(f".{path.name}")
    with os.fdopen(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(made, file, indent=2)
    making.replace(path)


def _options(wanted: Mapping[str, int]) -> str:
    sizes = ", ".join(f"{wanted[name]:,} {name}" for name in ("leaders", "members", "messages"))
    return f"{sizes}, seed {wanted['seed']}"
