"""Held runs: comparison, decision, and what account users see of it."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from daybreak.domain.audit import AuditQuery
from daybreak.domain.snapshot import SnapshotState
from tests.acceptance.dashboard.axe import axe_violations
from tests.acceptance.dashboard.conftest import (
    Service,
    count_clicks,
    ignore_failed_loads,
    served_sample,
    sign_in_without_form,
)
from tests.acceptance.dashboard.sample import directory, snapshots
from tests.parts.waiting import wait_until


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Iterator[Service]:
    """A service whose published snapshot may change."""
    with served_sample(tmp_path_factory.mktemp("held"), project_folder, members=40, days=2) as own:
        yield own


def test_decision_on_held_snapshot_needs_a_reason(
    open_with_axe: Callable[[], Page], service: Service, console_messages: list[str]
) -> None:
    held = snapshots.add_held(service.state, datetime.now(UTC))
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OPERATOR)
    page.goto(service.operator("runs"))
    page.get_by_role("link", name="Review snapshot").click()
    compared = page.get_by_role("region", name="Table: Compared with the published snapshot")
    expect(compared.get_by_role("row", name=re.compile("Member Details"))).to_contain_text(
        re.compile(r"52\.0 %\).*30 %.*failed")
    )
    expect(compared.get_by_role("row", name=re.compile("Member Details"))).to_have_class("failing")
    expect(compared.get_by_role("row", name=re.compile("Campaign Performance"))).to_contain_text("passed")
    checks = page.get_by_role("region", name="Failed checks")
    expect(checks).to_contain_text("220,961 rows in Member Subscription Status refer to members that do not exist")
    expect(checks).to_contain_text("For example")
    leaders = page.get_by_role("region", name="Table: Leaders that lost rows")
    expect(leaders.get_by_role("row", name=re.compile("Northlight Theatre, Member Details"))).to_be_visible()
    accounting = page.get_by_role("region", name="Table: Row accounting")
    expect(accounting.get_by_role("row", name=re.compile("Member Details"))).to_contain_text(
        "37: the Leader is not in table leaders"
    )
    expect(page.get_by_text("members: 37 rows of members in no file")).to_be_visible()
    page.get_by_role("link", name="Explain the missing rows").click()
    lost = page.get_by_role("region", name="Leaders that lost rows")
    expect(lost.get_by_role("row", name=re.compile("Northlight Theatre"))).to_contain_text(re.compile(r"\d %"))
    explained = page.get_by_role("region", name="Northlight Theatre", exact=True)
    expect(explained).to_contain_text("rows are missing")
    expect(explained.locator("table.data tbody tr")).to_have_count(10)
    refused = page.get_by_text("you need Data Export on this account")
    expect(refused.first).to_be_visible()

    def is_recorded() -> bool:
        previewed = service.state.read(lambda stores: stores.audit.read(AuditQuery(action="file.previewed")))
        return (directory.OPERATOR, directory.NORTHLIGHT) in {(each.actor, each.client_id) for each in previewed}

    # The service writes downloads and previews after up to a quarter of a second.
    wait_until(is_recorded, what="the record of the preview")
    assert axe_violations(page, "missing rows") == []
    page.get_by_role("link", name="Back to the run").click()
    page.get_by_role("region", name="Decision").get_by_role("link", name="Discard").click()
    reason = page.get_by_label("Reason")
    reason.fill("   ")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("alert")).to_contain_text("Enter a reason.")
    reason.fill("The platform was half empty.")
    page.get_by_role("button", name="Discard").dblclick()
    expect(page.get_by_text("Snapshot discarded.")).to_be_visible()
    found = service.state.read(lambda stores: stores.snapshots.get(held))
    assert found is not None
    assert found.state is SnapshotState.DISCARDED
    decided = service.state.read(lambda stores: stores.audit.read(AuditQuery(action="snapshot.discarded")))
    assert [event.actor for event in decided if event.subject == held] == [directory.OPERATOR]
    ignore_failed_loads(console_messages, 400)


@pytest.mark.release
def test_run_is_accepted_for_a_reason_on_its_page(
    open_page: Callable[..., Page], own_service: Service, console_messages: list[str]
) -> None:
    held = snapshots.add_held(own_service.state, datetime.now(UTC))
    page = open_page()
    clicks = count_clicks(page)
    sign_in_without_form(page, own_service, directory.OPERATOR)
    page.goto(f"{own_service.base}/dashboard/operator")
    page.get_by_role("link", name="Review snapshot").click()
    expect(page.get_by_role("link", name="Publish")).to_be_in_viewport()
    lost = page.get_by_role("region", name="Table: Leaders that lost rows").get_by_role("row")
    why = lost.filter(has_text="Northlight Theatre").first.inner_text()
    assert re.search(r"Member Details.*%", why, re.DOTALL)
    page.get_by_role("link", name="Publish").click()
    expect(page.get_by_role("main")).to_contain_text("220,961 rows in Member Subscription Status refer to members")
    page.get_by_label("Reason").fill("The agency moved its Members.")
    page.get_by_label("Type 81 % to publish").fill("yes")
    page.get_by_role("button", name="Publish").click()
    typed = page.get_by_label("Type 81 % to publish")
    expect(typed).to_have_accessible_description(re.compile("Type 81 % to publish this snapshot.*largest loss"))
    expect(page.get_by_label("Reason")).to_have_value("The agency moved its Members.")
    page.goto(page.url.replace("?", "?reason=of+a+link&confirmation=81&"))
    expect(typed).to_have_value("")
    page.get_by_label("Reason").fill("The agency moved its Members.")
    typed.fill("81")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Snapshot published.")).to_be_visible()
    assert clicks() == 3 + 1, "one more for the wrong percentage"
    published = own_service.state.read(lambda stores: stores.snapshots.current())
    assert published is not None
    assert published.snapshot_id == held

    owner = open_page()
    sign_in_without_form(owner, own_service, directory.OWNER)
    owner.goto(own_service.account(directory.NORTHLIGHT))
    members = owner.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("large drop")
    expect(members).to_contain_text("An operator accepted this drop: “The agency moved its Members.”")
    expect(owner.get_by_text("An operator accepted this drop")).to_have_count(1)
    ignore_failed_loads(console_messages, 400)
