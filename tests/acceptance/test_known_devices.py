"""A guesser who knows the password does not lock out the owner on a known device, in the API and the dashboard."""

from collections.abc import Callable

import pytest

from tests.acceptance.browser import SECOND_FACTOR, signed_in
from tests.acceptance.installation import GUESS, TWIN, Installation, totp_code
from tests.acceptance.service import Service, serving


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
    with serving(make_installation()) as service, signed_in(service, TWIN, SECOND_FACTOR) as browser:
        assert browser.send_code(totp_code()).status_code == 303
        device = {name: value for name, value in browser.session.cookies.items() if name == "daybreak-device"}
        assert guess(service, TWIN) == [401] * 5 + [429]
        with signed_in(service, TWIN, SECOND_FACTOR) as other:
            assert other.send_code(totp_code(ahead=1)).status_code == 429
            other.session.cookies.update(device)
            done = other.send_code(totp_code(ahead=1))
            assert done.status_code == 303
            assert done.headers["Location"].endswith("/files")


def guess(service: Service, email: str) -> list[int]:
    """Send six wrong codes from an unknown device and return the status codes."""
    pending = service.log_in(email).json()["token"]
    wrong = "000000" if "000000" not in {totp_code(ahead=step) for step in (-1, 0, 1, 2)} else "111111"
    return [service.answer_second_factor(pending, wrong).status_code for _ in range(6)]
