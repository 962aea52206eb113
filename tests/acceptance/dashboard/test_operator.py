"""Operator pages with a real browser: live progress, held publications, freshness, permissions, nodes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect

from daybreak.domain.snapshot import SnapshotState
from tests.acceptance.dashboard import stage
from tests.acceptance.dashboard.conftest import Service, forget_failed_loads


def test_pages_are_closed_to_others(
    visitor: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = visitor()
    assert page.get_by_role("link", name="Runs").count() == 0
    for path in ("runs", "freshness", "people", "nodes", "runs-progress"):
        assert page.request.get(service.operator(path)).status == 403
    page.goto(service.operator("people"))
    expect(page.get_by_text("These pages are for operators of the service.")).to_be_visible()
    forget_failed_loads(console_messages, 403)


def test_progress_moves_by_itself(visitor: Callable[..., Page], service: Service) -> None:
    now = datetime.now(UTC)
    snapshot_id, fence = stage.add_building(service.state, now)
    try:
        page = visitor(stage.OPERATOR)
        page.get_by_role("link", name="Runs").click()
        meter = page.get_by_role("img", name=re.compile("40 %, writing, members"))
        expect(meter).to_be_visible()
        stage.tell_progress(service.state, snapshot_id, fence, now, share=0.73)
        expect(page.get_by_role("img", name=re.compile("73 %, writing"))).to_be_visible()
    finally:
        service.state.write(
            lambda stores: stores.snapshots.finish(
                snapshot_id, fence, SnapshotState.FAILED, now, report={}, failure="The test ended it."
            )
        )
    # When nothing builds any more the page brings itself up to date.
    expect(page.get_by_role("row", name=re.compile("building"))).to_have_count(0)
    page.get_by_role("row", name=re.compile("failed")).first.get_by_role("link").click()
    expect(page.get_by_text("The test ended it.")).to_be_visible()


def test_a_run_whose_builder_fell_silent_says_so(visitor: Callable[..., Page], service: Service) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=2)
    snapshot_id, fence = stage.add_building(service.state, long_ago)
    try:
        page = visitor(stage.OPERATOR)
        page.get_by_role("link", name="Runs").click()
        expect(page.get_by_role("region", name="Run in progress")).to_have_count(0)
        page.get_by_role("row", name=re.compile("lapsed")).get_by_role("link").click()
        expect(page.get_by_text("It broke off.")).to_be_visible()
        expect(page.get_by_text("north-2 was last heard of at")).to_be_visible()
    finally:
        service.state.write(
            lambda stores: stores.snapshots.finish(
                snapshot_id, fence, SnapshotState.FAILED, long_ago, report={}, failure="ended"
            )
        )


def test_held_snapshot_is_decided_with_a_reason(
    visitor: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    held = stage.add_held(service.state, datetime.now(UTC))
    page = visitor(stage.OPERATOR)
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Look at the report and decide").click()
    expect(page.get_by_text("52% fewer")).to_be_visible()
    expect(page.get_by_text("members: 37 rows are in no file")).to_be_visible()
    reason = page.get_by_label("Reason, for the record")
    reason.fill("   ")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("Say why, in a few words")).to_be_visible()
    reason.fill("The platform was half empty.")
    page.get_by_role("button", name="Discard").dblclick()
    expect(page.get_by_text("The snapshot is discarded.")).to_be_visible()
    found = service.state.read(lambda stores: stores.snapshots.get(held))
    assert found is not None
    assert found.state is SnapshotState.DISCARDED
    decided = service.state.read(lambda stores: stores.audit.read(action="snapshot.discarded"))
    assert [event.actor for event in decided if event.subject == held] == [stage.OPERATOR]
    forget_failed_loads(console_messages, 400)


def test_freshness_people_and_nodes(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor(stage.OPERATOR)
    page.get_by_role("link", name="Freshness").click()
    missing = page.get_by_role("region", name="Accounts without files")
    expect(missing).to_contain_text("Brand New Bakery")
    expect(page.get_by_role("region", name="Publications").locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Accounts and seats").click()
    page.get_by_label("Search by account, email or id").fill("northlight")
    page.get_by_role("button", name="Search", exact=True).click()
    row = page.get_by_role("region", name="Table of accounts").get_by_role("row", name=re.compile("Northlight"))
    expect(row).to_contain_text(stage.OWNER)
    expect(row).to_contain_text("async REST API")
    page.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("row", name=re.compile("north-1"))).to_contain_text("builder")
