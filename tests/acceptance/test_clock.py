"""Links and sessions end when their time is over, and new files come at four: the service's own clock is moved."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import Snapshot, SnapshotState
from tests.acceptance.conftest import new_world
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.acceptance.world import CARL, GUESS, MAYA, NORTH, SOUTH, totp_code
from tests.parts.presence import absent
from tests.parts.waiting import wait_until

# The builder gives way to everything else, and may have a missed day to make up for first.
RUN_SECONDS = 3 * PATIENCE_SECONDS


def _library() -> Path:
    found = sorted(Path("/usr/lib").rglob("libfaketimeMT.so.1"))
    if not found:
        absent("faketime", "apt-get install faketime")
    return found[0]


class MovedClock:
    """The clock of a running service; every process of it reads the file anew."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def move(self, offset: str) -> None:
        """To that long after the real time, such as `+16m`."""
        new = self._file.with_suffix(".new")
        new.write_text(offset)
        new.replace(self._file)


def faked(file: Path) -> dict[str, str]:
    """The environment of a program whose clock follows a file."""
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, MovedClock]]:
    """A service and its clock."""
    folder = Path(tmp_path_factory.mktemp("clock"))
    clock = MovedClock(folder / "offset")
    clock.move("+0")
    with serving(new_world(folder), environment=faked(folder / "offset")) as service:
        yield service, clock


@pytest.mark.skipif(shutil.which("ldconfig") is None, reason="faketime is a matter of the dynamic linker")
def test_a_link_lives_a_quarter_of_an_hour_and_a_session_seven_days(moved: tuple[Service, MovedClock]) -> None:
    service, clock = moved
    token = service.token(MAYA, NORTH)
    south = service.switched(token, SOUTH)
    secret, _ = service.world.mint_token(MAYA, NORTH)
    waiting = service.log_in(CARL).json()["token"]
    link = service.link(token, NORTH)
    clock.move("+14m")
    assert service.get(link).status_code == 200
    clock.move("+16m")
    for answer in (service.get(link), service.get(link.replace("csv", "json")), service.request("HEAD", link)):
        assert answer.status_code == 403
    assert service.get(link).json()["code"] == "link_expired"
    changed = link[:-1] + ("0" if link[-1] != "0" else "1")
    assert service.get(changed).json()["code"] == "invalid_link", "the signature is judged before the time"
    assert service.get(service.link(token, NORTH)).status_code == 200
    right = totp_code(at=datetime.now(UTC) + timedelta(minutes=16))
    over = service.answer_second_factor(waiting, right)
    assert over.status_code == 401, "a login waits ten minutes for its second factor"
    assert over.json()["code"] in {"token_expired", "session_ended"}, "whatever the code"
    clock.move("+6d")
    assert service.ask(token, NORTH).status_code == 302
    late = service.switched(token, SOUTH)
    clock.move("+169h")
    for old, client_id in ((token, NORTH), (south, SOUTH), (late, SOUTH)):
        found = service.ask(old, client_id)
        assert found.status_code == 401
        assert found.json()["code"] in {"token_expired", "session_ended"}
    assert service.get(f"{AUTH}/context", token=late).status_code == 401
    assert service.ask(secret, NORTH).status_code == 302, "an API token without an end has none"
    assert service.log_in(MAYA).status_code == 200
    clock.move("+0")
    wait_until(lambda: service.ask(token, NORTH).status_code == 302, what="the clock to be back")


def test_guessing_slowly_ends_at_20_an_hour_and_50_a_day(moved: tuple[Service, MovedClock]) -> None:
    service, clock = moved

    def looked_at(minutes: int) -> int:
        """How many of six guesses at that time were looked at."""
        clock.move(f"+{minutes}m")
        waiting = service.log_in(GUESS).json()["token"]
        statuses = [service.answer_second_factor(waiting, "none").status_code for _ in range(6)]
        assert statuses == sorted(statuses), "once refused, always refused"
        assert set(statuses) <= {401, 429}
        return statuses.count(401)

    assert [looked_at(minutes) for minutes in (0, 6, 12, 18, 24)] == [5, 5, 5, 5, 0]
    assert [looked_at(minutes) for minutes in (70, 76, 82, 88, 94)] == [5, 5, 5, 5, 0]
    assert [looked_at(minutes) for minutes in (160, 166, 172, 700)] == [5, 5, 0, 0]
    for minutes, status in ((700, 429), (1460, 200)):
        clock.move(f"+{minutes}m")
        waiting = service.log_in(GUESS).json()["token"]
        right = totp_code(at=datetime.now(UTC) + timedelta(minutes=minutes))
        assert service.answer_second_factor(waiting, right).status_code == status, "the right code has to wait, too"
    clock.move("+0")


def test_new_files_are_made_before_four_and_come_at_four(tmp_path: Path) -> None:
    """A service as operators run it, its clock moved to the night's end."""
    world = new_world(tmp_path)
    make_platform(tmp_path / "platform", leaders=3, members=20, messages=40, seed=1, as_of=datetime.now(UTC))
    clock = MovedClock(tmp_path / "offset")
    four = datetime.combine(datetime.now(UTC).date() + timedelta(days=1), time(4), UTC)

    def move_to(moment: datetime) -> None:
        clock.move(f"+{(moment - datetime.now(UTC)).total_seconds():.0f}")

    state = world.state()

    def in_state(wanted: SnapshotState) -> list[Snapshot]:
        found = state.read(lambda stores: stores.snapshots.of_day(four.date()))
        return [found] if found is not None and found.state is wanted else []

    move_to(four - timedelta(minutes=50))
    settings = {
        "snapshot.schedule": True,
        "snapshot.publish_at": "04:00",
        "source.location": str(tmp_path / "platform"),
    }
    try:
        with serving(world, environment=faked(tmp_path / "offset"), settings=settings, workers=1) as service:
            (complete,) = wait_until(lambda: in_state(SnapshotState.COMPLETE), RUN_SECONDS, what="the night's run")
            assert complete.started_at < four
            served = state.read(lambda stores: stores.snapshots.current())
            assert served is not None
            assert served.snapshot_id != complete.snapshot_id, "it waits for its hour"
            move_to(four - timedelta(minutes=1))
            link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
            old = service.get(link).content
            move_to(four - timedelta(seconds=3))
            (published,) = wait_until(lambda: in_state(SnapshotState.PUBLISHED), PATIENCE_SECONDS, what="four o'clock")
            assert published.snapshot_id == complete.snapshot_id
            assert published.published_at is not None
            assert published.published_at >= four
            assert service.get(link).content == old, "a link that was given before leads to the file of before"
    finally:
        state.close()
