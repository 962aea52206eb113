"""Operator pages."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from daybreak.domain.identity import Account
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import SnapshotState
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads
from tests.acceptance.dashboard.sample import directory, snapshots


def test_operator_pages_need_the_operator_role(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as()
    assert page.get_by_role("link", name="Runs").count() == 0
    for path in ("runs", "freshness", "people", "consumers", "nodes", "runs-progress"):
        assert page.request.get(service.operator(path)).status == 403
    page.goto(service.operator("people"))
    expect(page.get_by_text("Only operators can open this page.")).to_be_visible()
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_sign_out_is_always_visible(sign_in_as: Callable[..., Page]) -> None:
    page = sign_in_as(directory.OPERATOR, viewport={"width": 1280, "height": 800})
    sign_out = page.get_by_role("button", name="Sign out")
    last = page.get_by_role("link", name="Nodes")
    expect(sign_out).to_be_in_viewport(ratio=1)
    expect(last).to_be_in_viewport(ratio=1)
    # On a low screen the list scrolls behind the button, and the focused link is not hidden.
    page.set_viewport_size({"width": 1280, "height": 500})
    expect(sign_out).to_be_in_viewport(ratio=1)
    last.focus()
    boxes = last.bounding_box(), page.locator(".side-foot").bounding_box()
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]


@pytest.mark.release
def test_progress_updates_without_reload(sign_in_as: Callable[..., Page], service: Service) -> None:
    now = datetime.now(UTC)
    snapshot_id, fence = snapshots.add_building(service.state, now)
    try:
        page = sign_in_as(directory.OPERATOR, address=service.operator("runs"))
        meter = page.get_by_role("img", name=re.compile(r"40 % · writing Member Details \(4 of 9\)"))
        expect(meter).to_be_visible()
        snapshots.report_progress(service.state, snapshot_id, fence, now, share=0.73)
        expect(page.get_by_role("img", name=re.compile("73 % · writing"))).to_be_visible()
    finally:
        service.state.write(
            lambda stores: stores.snapshots.finish(
                snapshot_id, fence, SnapshotState.FAILED, now, report=RunReport(), failure="The test ended it."
            )
        )
    # The page shows the state of the run when it has ended.
    expect(page.get_by_role("row", name=re.compile("building"))).to_have_count(0)
    page.get_by_role("row", name=re.compile("failed")).first.get_by_role("link").click()
    expect(page.get_by_text("The test ended it.")).to_be_visible()


@pytest.mark.release
def test_page_of_a_run_does_not_reload_under_an_open_dialog(sign_in_as: Callable[..., Page], service: Service) -> None:
    now = datetime.now(UTC)
    snapshot_id, fence = snapshots.add_building(service.state, now)
    page = sign_in_as(directory.OPERATOR, address=service.operator(f"runs/{snapshot_id}"))
    page.keyboard.press("Control+k")
    search = page.get_by_role("dialog").get_by_role("combobox")
    search.fill("nodes")
    with page.expect_response(lambda response: response.status == 205):
        service.state.write(
            lambda stores: stores.snapshots.finish(
                snapshot_id, fence, SnapshotState.FAILED, now, report=RunReport(), failure="It ended."
            )
        )
    with page.expect_response(lambda response: response.status == 205):
        expect(search).to_have_value("nodes")
    page.keyboard.press("Escape")
    expect(page.get_by_text("It ended.")).to_be_visible()


@pytest.mark.release
def test_runs_page_notices_a_new_run(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.OPERATOR, address=service.operator("runs"))
    page.evaluate("() => { document.body.dataset.opened = 'once'; }")
    now = datetime.now(UTC)
    snapshot_id, fence = snapshots.add_building(service.state, now)
    expect(page.get_by_role("region", name="Run in progress")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("building"))).to_be_visible()
    failure = "The source differs from the catalogue:\n- members.EMAIL is missing\n- table terms is missing"
    service.state.write(
        lambda stores: stores.snapshots.finish(
            snapshot_id, fence, SnapshotState.FAILED, now, report=RunReport(), failure=failure
        )
    )
    expect(page.get_by_role("region", name="Run in progress")).to_have_count(0)
    expect(page.get_by_role("row", name=re.compile("building"))).to_have_count(0)
    expect(page.locator("body")).to_have_attribute("data-opened", "once")
    page.goto(service.operator(f"runs/{snapshot_id}"))
    # The failure keeps its lines.
    assert failure in page.get_by_role("alert").inner_text()


@pytest.mark.release
def test_run_without_heartbeat_is_lapsed(sign_in_as: Callable[..., Page], service: Service) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=2)
    snapshot_id, fence = snapshots.add_building(service.state, long_ago)
    try:
        page = sign_in_as(directory.OPERATOR, address=service.operator("runs"))
        expect(page.get_by_role("region", name="Run in progress")).to_have_count(0)
        page.get_by_role("row", name=re.compile("lapsed")).get_by_role("link").click()
        expect(page.get_by_text("Run lapsed.")).to_be_visible()
        expect(page.get_by_text("Last heartbeat of north-2:")).to_be_visible()
    finally:
        service.state.write(
            lambda stores: stores.snapshots.finish(
                snapshot_id, fence, SnapshotState.FAILED, long_ago, report=RunReport(), failure="ended"
            )
        )


@pytest.mark.release
def test_operator_pages_show_freshness_accounts_and_nodes(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.OPERATOR, address=service.operator("freshness"))
    missing = page.get_by_role("region", name="Accounts without files")
    expect(missing).to_contain_text("Brand New Bakery")
    expect(page.get_by_role("region", name="Publications").locator("tbody tr")).to_have_count(3)
    accounts = [
        Account(directory.id_of(f"paged {number}"), f"Paged {number:03}", "Account", "+4790000000", "long_code")
        for number in range(60)
    ]
    service.state.write(lambda stores: stores.directory.put_accounts(*accounts))
    try:
        page.reload()
        expect(missing.get_by_role("listitem")).to_have_count(50)
        missing.get_by_role("navigation", name="Pages").get_by_role("link", name="Next").click()
        expect(missing).to_contain_text("Paged 059")
        expect(missing).not_to_contain_text("Brand New Bakery")
        missing.get_by_role("navigation", name="Pages").get_by_role("link", name="Previous").click()
        expect(missing).to_contain_text("Brand New Bakery")
    finally:
        inactive = [replace(account, active=False) for account in accounts]
        service.state.write(lambda stores: stores.directory.put_accounts(*inactive))
    page.get_by_role("link", name="Accounts and seats").click()
    page.get_by_label("Account, number, email or ID").fill("northlight")
    page.get_by_role("button", name="Search", exact=True).click()
    row = page.get_by_role("region", name="Table of accounts").get_by_role("row", name=re.compile("Northlight"))
    expect(row).to_contain_text(directory.OWNER)
    expect(row).to_contain_text("Async REST API")
    page.get_by_role("link", name="Consumers").click()
    expect(page.get_by_role("heading", name="API tokens in use")).to_be_visible()
    page.get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("row", name=re.compile("north-1"))).to_contain_text("builder")
