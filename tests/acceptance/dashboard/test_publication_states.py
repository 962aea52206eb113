"""Publication states: panel, strip, title and icon of late, failed, held and missing files."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import SnapshotState
from tests.acceptance.dashboard.axe import PHONE, axe_violations
from tests.acceptance.dashboard.conftest import Service, served_sample, sign_in_without_form
from tests.acceptance.dashboard.sample import directory, snapshots

STATE_PATHS = ("files", "insight", "settings/tokens")


@pytest.fixture(scope="module")
def late_service(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Iterator[Service]:
    """A service whose last publication is missing."""
    with served_sample(tmp_path_factory.mktemp("late"), project_folder, members=40, days=2, days_late=1) as late:
        yield late


@pytest.fixture(scope="module")
def new_service(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Iterator[Service]:
    """A service that has never published."""
    with served_sample(tmp_path_factory.mktemp("new"), project_folder, members=40, days=0) as new:
        yield new


@pytest.mark.release
def test_late_failed_and_held_files_differ(open_with_axe: Callable[[], Page], late_service: Service) -> None:
    now = datetime.now(UTC)
    day = (now - timedelta(hours=8)).date()
    page = _signed_in(open_with_axe, late_service)
    late = _expect_state(page, late_service, "Late", r"Late by 8 h", r"You see \w+day's data \(\d+ h old\)")
    expect(page.get_by_label("Freshness")).to_contain_text("The run for today's files has not started.")

    snapshot_id, fence = snapshots.begin_day(late_service.state, day, now)
    text = r"still being built \(40 % done\)"
    _expect_state(page, late_service, "Late", r"Late by 8 h", text, paths=("files",))

    _finish(late_service, snapshot_id, fence, SnapshotState.FAILED, now)
    text = r"Late by 8 h.*Next attempt \d\d:\d\d"
    failed = _expect_state(page, late_service, "Failed", "Today's files failed to build", text)

    snapshot_id, fence = snapshots.begin_day(late_service.state, day, now)
    _finish(late_service, snapshot_id, fence, SnapshotState.HELD, now)
    text = "An operator must accept or discard"
    held = _expect_state(page, late_service, "Held", "Today's files are held for review", text)
    assert [len({*backgrounds}) for backgrounds in zip(late, failed, held, strict=True)] == [3, 3]


@pytest.mark.release
def test_first_run_and_no_run_differ(open_with_axe: Callable[[], Page], new_service: Service) -> None:
    page = _signed_in(open_with_axe, new_service)
    text = "The first run has not started."
    unpublished = _expect_state(page, new_service, "Not published", "No files published yet", text)
    now = datetime.now(UTC)
    snapshots.begin_day(new_service.state, (now - timedelta(hours=8)).date(), now)
    text = "when the run is complete"
    assert _expect_state(page, new_service, "First run", "The first files are being built", text) != unpublished


@pytest.mark.release
def test_phone_shows_fresh_files_without_a_tap(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(viewport=PHONE)
    panel = page.get_by_role("region", name="Freshness")
    expect(panel.get_by_text("Up to date")).to_be_in_viewport()
    expect(panel.get_by_text(re.compile(r"As of .*\d\d:12 UTC")).first).to_be_in_viewport()
    for path in STATE_PATHS:
        page.goto(service.account(directory.NORTHLIGHT, path))
        expect(page).to_have_title(re.compile("^(Files|Insight|API tokens)"))
        expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile(r"/favicon\.svg$"))
        expect(page.locator(".strip")).to_have_count(0)


def _signed_in(open_with_axe: Callable[[], Page], service: Service) -> Page:
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OWNER)
    return page


def _expect_state(
    page: Page, service: Service, tag: str, headline: str, text: str, paths: tuple[str, ...] = STATE_PATHS
) -> tuple[str, ...]:
    """Expect the state on the panel of Files and on the strip of Insight and API tokens, in their titles and icons.

    Returns the dark and the light background of the panel and of the strips.
    """
    backgrounds = set[tuple[str, ...]]()
    icon = re.compile(rf"/favicon-{tag.lower().replace('not ', 'un').replace(' ', '_')}\.svg$")
    for path in paths:
        page.goto(service.account(directory.NORTHLIGHT, path))
        expect(page.get_by_text("Counting rows")).to_have_count(0)
        expect(page).to_have_title(re.compile(f"^{tag}: "))
        expect(page.locator("link[rel=icon]")).to_have_attribute("href", icon)
        shown = page.get_by_label("Freshness")
        expect(shown).to_contain_text(re.compile(headline))
        expect(shown).to_contain_text(re.compile(text))
        backgrounds.add(_backgrounds(page, shown))
        if path == "files":
            expect(shown.locator(".freshness-state")).to_have_text(tag)
            assert axe_violations(page, f"{tag}, {path}") == []
    (both,) = backgrounds
    return both


def _backgrounds(page: Page, shown: Locator) -> tuple[str, ...]:
    """Return the background of an element on a dark page and on a light one."""
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        found.append(str(shown.evaluate("shown => getComputedStyle(shown).backgroundImage")))
    return tuple(found)


def _finish(service: Service, snapshot_id: str, fence: int, state: SnapshotState, now: datetime) -> None:
    failure = "The source closed the connection." if state is SnapshotState.FAILED else None
    report = RunReport(code="source_error" if failure else None)
    service.state.write(
        lambda stores: stores.snapshots.finish(snapshot_id, fence, state, now, report=report, failure=failure)
    )
