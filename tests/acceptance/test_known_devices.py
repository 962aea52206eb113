"""A guesser who knows the password does not lock out the owner on a known device, in the API and the dashboard."""

from collections.abc import Callable

import pytest
import requests

from tests.acceptance.installation import GUESS, TWIN, Installation, totp_code
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_pending_login import browser_with_pending_login, form_token


def test_guesses_do_not_lock_out_a_known_device(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    with serving(installation) as service:
        pending = service.log_in(GUESS).json()["token"]
        device_id = service.answer_second_factor(pending, totp_code()).json()["device_id"]
        assert guess(service, GUESS) == [401] * 5 + [429]
        pending = service.log_in(GUESS).json()["token"]
        assert service.answer_second_factor(pending).status_code == 429
        known = service.request(
            "POST",
            "/download/v2/auth/login/callback/mfa",
            token=pending,
            json={"totp": totp_code(ahead=1)},
            headers={"X-Device-Id": device_id},
        )
        assert (known.status_code, known.json()["device_id"]) == (200, device_id)


@pytest.mark.release
def test_guesses_do_not_lock_out_a_known_browser(make_installation: Callable[[], Installation]) -> None:
    with serving(make_installation()) as service, browser_with_pending_login(service, TWIN) as browser:
        assert send_code(service, browser, totp_code()).status_code == 303
        device = {name: value for name, value in browser.cookies.items() if name == "daybreak-device"}
        assert guess(service, TWIN) == [401] * 5 + [429]
        with browser_with_pending_login(service, TWIN) as other:
            assert send_code(service, other, totp_code(ahead=1)).status_code == 429
            other.cookies.update(device)
            signed_in = send_code(service, other, totp_code(ahead=1))
            assert signed_in.status_code == 303
            assert signed_in.headers["Location"].endswith("/files")


def guess(service: Service, email: str) -> list[int]:
    """Send six wrong codes from an unknown device and return the status codes."""
    pending = service.log_in(email).json()["token"]
    wrong = "000000" if "000000" not in {totp_code(ahead=step) for step in (-1, 0, 1, 2)} else "111111"
    return [service.answer_second_factor(pending, wrong).status_code for _ in range(6)]


def send_code(service: Service, browser: requests.Session, code: str) -> requests.Response:
    page = f"{service.address}/dashboard/second-factor"
    form = browser.get(page, timeout=PATIENCE_SECONDS)
    sent = {"csrf": form_token(form), "code": code, "kind": "", "next": ""}
    return browser.post(page, data=sent, allow_redirects=False, timeout=PATIENCE_SECONDS)
