"""Settings that require a second factor: `access.require_second_factor` and `access.operator_second_factor`."""

import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from daybreak.credentials import keyring, totp
from daybreak.state.stores import Stores
from tests.acceptance.browser import form_token, signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.dashboard.conftest import ignore_failed_loads
from tests.acceptance.dashboard.sample.directory import seed_of
from tests.acceptance.installation import MAYA, NORTH, PASSWORD, SEED, SOUTH, Installation, seat_id
from tests.acceptance.service import AUTH, Service, serving

RUNS = "/dashboard/operator/runs"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    """Return two nodes of one installation: the second one requires a second factor for every session."""
    installation = new_installation(tmp_path_factory.mktemp("policy"))
    with serving(installation, workers=1) as lenient:
        settings = {"base_url": lenient.base_url, "access.require_second_factor": "always"}
        with serving(installation, workers=1, settings=settings) as strict:
            yield lenient, strict


@pytest.mark.release
def test_earlier_sessions_are_refused(nodes: tuple[Service, Service]) -> None:
    lenient, strict = nodes
    token = lenient.token(MAYA, NORTH)
    link = lenient.link(token, NORTH).replace(lenient.address, strict.address)
    for refused in (
        strict.request_file(token, NORTH),
        strict.get(f"/download/v1/files/{NORTH}", token=token),
        strict.get(f"/download/v1/audit/{NORTH}", token=token),
        strict.request("PUT", f"{AUTH}/context", token=token, json={"context": SOUTH}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "second_factor_required")
    assert strict.get(link).json()["code"] == "link_revoked"
    assert lenient.request_file(token, NORTH).status_code == 302
    with signed_in(lenient, MAYA) as browser:
        browser.address = strict.address
        for path in (f"/dashboard/{NORTH}/files", f"/dashboard/{NORTH}/settings/tokens", "/dashboard/"):
            page = browser.get(path)
            assert page.status_code == 403, path
            assert "/dashboard/sign-in?ended=again" in page.text


def test_login_without_a_second_factor_is_pending(nodes: tuple[Service, Service]) -> None:
    _, strict = nodes
    answer = strict.log_in(MAYA)
    assert answer.status_code == 200
    assert answer.json().keys() == {"seat_id", "token"}
    pending = answer.json()["token"]
    assert strict.request_file(pending, NORTH).json()["code"] == "second_factor_required"
    missing = strict.answer_second_factor(pending, "123456")
    assert (missing.status_code, missing.json()["code"]) == (403, "second_factor_not_enrolled")
    assert "/dashboard" in missing.json()["detail"]


def test_api_tokens_need_no_second_factor(nodes: tuple[Service, Service]) -> None:
    _, strict = nodes
    secret, _ = strict.installation.create_token(MAYA, NORTH)
    assert strict.get(strict.link(secret, NORTH)).status_code == 200


def test_sign_in_leads_to_enrolment(nodes: tuple[Service, Service]) -> None:
    _, strict = nodes
    with signed_in(strict, MAYA, "/enrol") as browser:
        page = browser.get("/dashboard/enrol")
        assert "Sign-in requires a code in addition to your password." in page.text
        key = re.search(r'id="manual-key"[^>]*>([^<]+)<', page.text)
        assert key is not None
        code = totp.code_at(seed_of(key[1]), int(time.time()) // totp.STEP_SECONDS)
        done = browser.post("/dashboard/enrol", {"csrf": form_token(page), "code": code, "next": ""})
        assert done.status_code == 200, done.text[:500]
        assert browser.get(f"/dashboard/{NORTH}/files").status_code == 200


@pytest.mark.release
def test_operator_is_led_to_a_second_factor(
    make_installation: Callable[[], Installation], page: Page, console_messages: list[str]
) -> None:
    installation = make_installation()
    make_operator(installation)
    with serving(installation, workers=1) as service:
        enter_password(page, service.address + RUNS)
        expect(page.get_by_role("heading", name="No second factor set up")).to_be_visible()
        page.get_by_role("link", name="Set up second factor").click()
        page.get_by_role("button", name="Set up").click()
        seed = seed_of(page.locator("#manual-key").inner_text())
        page.get_by_label("Six-digit code").fill(totp.code_at(seed, int(time.time()) // totp.STEP_SECONDS))
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("heading", name="Save your recovery codes")).to_be_visible()
        page.goto(service.address + RUNS)
        page.get_by_role("link", name="Sign in again").click()
        enter_password(page)
        page.get_by_label("Six-digit code").fill(totp.code_at(seed, int(time.time()) // totp.STEP_SECONDS + 1))
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url(f"**{RUNS}")
        expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
        ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_enrolled_operator_must_use_the_second_factor(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    make_operator(installation)
    settings = {"access.operator_second_factor": False}
    with serving(installation, workers=1, settings=settings) as service, signed_in(service, MAYA) as browser:
        assert browser.get(RUNS).status_code == 200
        # An enrolled second factor must be used.
        enrol(installation)
        page = browser.get(RUNS)
        assert page.status_code == 403
        assert "Sign in again with yours." in page.text


def make_operator(installation: Installation) -> None:
    installation.change(lambda stores: stores.seats.set_operator(seat_id(MAYA), operator=True))


def enrol(installation: Installation) -> None:
    """Enrol Maya's seat without ending her sessions."""
    ring = keyring.load(installation.keyring_file)
    sealed = totp.encrypt_seed(SEED, seat_id=seat_id(MAYA), keyring=ring, random=os.urandom)

    def work(stores: Stores) -> None:
        stores.seats.begin_second_factor(seat_id(MAYA), sealed, datetime.now(UTC))
        stores.seats.confirm_second_factor(seat_id(MAYA), 1, [], datetime.now(UTC))

    installation.change(work)


def enter_password(page: Page, url: str = "") -> None:
    if url:
        page.goto(url)
    page.get_by_label("Email").fill(MAYA)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
