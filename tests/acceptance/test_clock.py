"""Expiry of links and sessions, and publication at 04:00 UTC, with a moved clock."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.audit import AuditQuery
from daybreak.domain.snapshot import Snapshot, SnapshotState
from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import CARL, MAYA, NORTH, SOUTH, seat_id, totp_code
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.parts.moved_clock import MovedClock
from tests.parts.waiting import wait_until

# The builder has low priority, and may run for a missed day first.
RUN_SECONDS = 3 * PATIENCE_SECONDS


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, MovedClock]]:
    """Return a service and its clock."""
    folder = Path(tmp_path_factory.mktemp("clock"))
    clock = MovedClock(folder / "offset")
    clock.move("+0")
    # Operator pages open without a second factor, whose codes depend on the clock.
    settings = {"access.operator_second_factor": False}
    with serving(new_installation(folder), environment=clock.environment, settings=settings, workers=1) as service:
        yield service, clock


@pytest.mark.release
@pytest.mark.skipif(shutil.which("ldconfig") is None, reason="faketime needs the dynamic linker")
def test_links_expire_in_15_minutes_and_sessions_in_7_days(moved: tuple[Service, MovedClock]) -> None:
    service, clock = moved
    token = service.token(MAYA, NORTH)
    south = service.switch_account(token, SOUTH)
    secret, _ = service.installation.create_token(MAYA, NORTH)
    pending = service.log_in(CARL).json()["token"]
    link = service.link(token, NORTH)
    clock.move("+14m")
    assert service.get(link).status_code == 200
    clock.move("+16m")
    for answer in (service.get(link), service.get(link.replace("csv", "json")), service.request("HEAD", link)):
        assert answer.status_code == 403
    assert service.get(link).json()["code"] == "link_expired"
    changed = link[:-1] + ("0" if link[-1] != "0" else "1")
    assert service.get(changed).json()["code"] == "invalid_link", "the signature is checked before the expiry"
    assert service.get(service.link(token, NORTH)).status_code == 200
    correct_code = totp_code(at=datetime.now(UTC) + timedelta(minutes=16))
    expired = service.answer_second_factor(pending, correct_code)
    assert expired.status_code == 401, "a pending login expires after ten minutes"
    assert expired.json()["code"] in {"token_expired", "session_ended"}, "for any code"
    clock.move("+6d")
    assert service.request_file(token, NORTH).status_code == 302
    switched = service.switch_account(token, SOUTH)
    clock.move("+169h")
    for old, client_id in ((token, NORTH), (south, SOUTH), (switched, SOUTH)):
        found = service.request_file(old, client_id)
        assert found.status_code == 401
        assert found.json()["code"] in {"token_expired", "session_ended"}
    assert service.get(f"{AUTH}/context", token=switched).status_code == 401
    assert service.request_file(secret, NORTH).status_code == 302, "an API token without expiry does not expire"
    assert service.log_in(MAYA).status_code == 200
    clock.move("+0")
    wait_until(lambda: service.request_file(token, NORTH).status_code == 302, what="the clock to be reset")


def test_dashboard_session_ends_after_eight_hours_without_activity(moved: tuple[Service, MovedClock]) -> None:
    service, clock = moved
    files, progress = f"/dashboard/{NORTH}/files", "/dashboard/operator/runs-progress"
    service.installation.change(lambda stores: stores.seats.set_operator(seat_id(MAYA), operator=True))
    token = service.token(MAYA, NORTH)
    active, polling = signed_in(service, MAYA), signed_in(service, MAYA)

    def is_recorded() -> bool:
        opened = state.read(lambda stores: stores.sessions.list_open(seat_id(MAYA), started))
        return any(session.kind == "dashboard" and session.last_used_at > started for session, _ in opened)

    with closing(service.installation.state()) as state, active, polling:
        started = datetime.now(UTC) + timedelta(hours=4)
        clock.move("+5h")
        assert [active.get(files).status_code, polling.get(progress).status_code] == [200, 205]
        wait_until(is_recorded, what="the record of the activity")
        clock.move("+481m")
        assert active.get(files).status_code == 200
        for found, ended in (
            (polling.get(progress), "idle"),
            (polling.get(files), "idle"),
            (polling.post(f"/dashboard/{NORTH}/settings/tokens/new", {}), "idle-form"),
        ):
            assert found.status_code == 303, found.url
            assert found.headers["Location"].endswith(f"ended={ended}"), found.url
            shown = polling.get(found.headers["Location"])
            assert "You were signed out after 8 hours without activity." in shown.text
        assert service.request_file(token, NORTH).status_code == 302, "API sessions have no such limit"
        (event,) = state.read(lambda stores: stores.audit.read(AuditQuery(action="session.ended")))
        assert (event.actor, event.seat_id, event.details["reason"]) == ("service", seat_id(MAYA), "idle")
        sid = str(event.subject).removeprefix("session:")
        resolved = state.read(lambda stores: stores.sessions.resolve(sid, None))
        assert resolved is not None
        assert resolved.session.end_reason == "idle"
    service.installation.change(lambda stores: stores.seats.set_operator(seat_id(MAYA), operator=False))
    clock.move("+0")


@pytest.mark.release
def test_files_are_built_before_four_and_published_at_four(tmp_path: Path) -> None:
    """Run a scheduled service with its clock moved to the end of the night."""
    installation = new_installation(tmp_path)
    sizes = PlatformSizes(leaders=3, members=20, messages=40)
    make_platform(tmp_path / "platform", sizes, seed=1, as_of=datetime.now(UTC))
    clock = MovedClock(tmp_path / "offset")
    publish_time = datetime.combine(datetime.now(UTC).date() + timedelta(days=1), time(4), UTC)

    state = installation.state()

    def in_state(wanted: SnapshotState) -> list[Snapshot]:
        found = state.read(lambda stores: stores.snapshots.of_day(publish_time.date()))
        return [found] if found is not None and found.state is wanted else []

    clock.move_to(publish_time - timedelta(minutes=50))
    settings = {
        "snapshot.schedule": True,
        "snapshot.publish_at": "04:00",
        "source.location": str(tmp_path / "platform"),
    }
    try:
        with serving(installation, environment=clock.environment, settings=settings, workers=1) as service:
            (complete,) = wait_until(lambda: in_state(SnapshotState.COMPLETE), RUN_SECONDS, what="the scheduled run")
            assert complete.started_at < publish_time
            served = state.read(lambda stores: stores.snapshots.current())
            assert served is not None
            assert served.snapshot_id != complete.snapshot_id, "it is not published before 04:00"
            clock.move_to(publish_time - timedelta(minutes=1))
            link = service.link(service.token(MAYA, NORTH), NORTH, "members.csv.gz")
            old = service.get(link).content
            clock.move_to(publish_time - timedelta(seconds=3))
            (published,) = wait_until(
                lambda: in_state(SnapshotState.PUBLISHED), PATIENCE_SECONDS, what="the publication"
            )
            assert published.snapshot_id == complete.snapshot_id
            assert published.published_at is not None
            assert published.published_at >= publish_time
            assert service.get(link).content == old, "a link opens the file for which it was issued"
    finally:
        state.close()
