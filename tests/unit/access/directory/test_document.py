"""The directory document: reading, writing, and faults with their position."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from daybreak.access.directory.document import read_directory, write_directory
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import BillingState

CLIENT = "0b8f6a2e-3b1c-4f0d-9a57-0d7a1f3f9c01"
SEAT = "1b8f6a2e-3b1c-4f0d-9a57-0d7a1f3f9c02"


def document() -> dict[str, Any]:
    return {
        "accounts": [
            {
                "client_id": CLIENT,
                "first_name": 'Zoë "Z"',
                "last_name": "",
                "phone_number": "+15550100000",
                "phone_number_type": "toll_free",
                "status": "inactive",
                "campaign_messages_monthly_threshold": 10,
                "campaign_messages_monthly_used": 3,
                "api_tokens_enabled": True,
                "second_factor_required": True,
                "onboarding_billing_state": {
                    "billing_provided": True,
                    "billing_required": False,
                    "trial_length_days": 14,
                    "trial_started": True,
                },
            }
        ],
        "seats": [
            {
                "seat_id": SEAT,
                "email": "ana@example.org",
                "disabled": True,
                "access": [{"client_id": CLIENT, "roles": ["owner"], "data_export": True, "async_rest_api": False}],
            }
        ],
    }


def faults(text: str) -> str:
    with pytest.raises(OperatorError) as caught:
        read_directory(text)
    assert caught.value.code == "directory_faults"
    return caught.value.message


def test_written_directory_equals_the_one_read() -> None:
    read = read_directory(json.dumps(document()))
    assert json.loads(write_directory(read.directory)) == document()
    assert read_directory(write_directory(read.directory)).directory == read.directory


def test_missing_fields_get_defaults_and_passwords_are_read() -> None:
    changed = document()
    changed["accounts"][0] = {
        "client_id": CLIENT.upper(),
        "first_name": "A",
        "last_name": "B",
        "phone_number": "+15550100000",
        "phone_number_type": "long_code",
    }
    changed["seats"][0] |= {"password": "nine lanterns in fog", "disabled": False}
    read = read_directory(json.dumps(changed))
    account = read.directory.accounts[0]
    assert account.client_id == CLIENT
    assert account.active
    assert account.billing == BillingState()
    assert read.passwords == {SEAT: "nine lanterns in fog"}
    assert "lanterns" not in write_directory(read.directory)


def test_all_faults_are_listed_with_their_position() -> None:
    changed = document()
    changed["accounts"][0] |= {
        "client_id": "17",
        "status": "gone",
        "phone_number": "555",
        "campaign_messages_monthly_used": -1,
        "api_tokens_enabled": "yes",
        "color": "blue",
    }
    del changed["accounts"][0]["first_name"]
    changed["accounts"][0]["onboarding_billing_state"]["trial_days"] = 3
    changed["seats"][0] |= {"email": "nobody", "password": ["1234567890"]}
    changed["seats"][0]["access"][0]["roles"] = ["king"]
    changed["extra"] = []
    message = faults(json.dumps(changed))
    for position in (
        "$.accounts[0].client_id",
        "$.accounts[0].status",
        "$.accounts[0].phone_number",
        "$.accounts[0].campaign_messages_monthly_used",
        "$.accounts[0].api_tokens_enabled",
        "$.accounts[0].color",
        "$.accounts[0].first_name",
        "$.accounts[0].onboarding_billing_state.trial_days",
        "$.seats[0].email",
        "$.seats[0].password",
        "$.seats[0].access[0].roles",
        "$.extra",
    ):
        assert position in message, position
    assert "1234567890" not in message, "faults do not contain passwords"


@pytest.mark.parametrize("password", ["administrator", " Basketball ", "short"])
def test_weak_password_in_a_document_is_refused(password: str) -> None:
    changed = document()
    changed["seats"][0] |= {"password": password}
    message = faults(json.dumps(changed))
    assert "$.seats[0].password" in message
    assert password not in message


def test_duplicate_and_unknown_ids_are_refused() -> None:
    changed = document()
    changed["accounts"].append(changed["accounts"][0])
    changed["seats"].append(changed["seats"][0])
    assert "appears twice" in faults(json.dumps(changed))
    changed = document()
    changed["seats"][0]["access"][0]["client_id"] = SEAT
    assert "which does not exist" in faults(json.dumps(changed))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"accounts": []}', '{"accounts": 1, "seats": []}', "[" * 100_000])
def test_invalid_documents_are_refused(text: str) -> None:
    faults(text)


def test_duplicate_field_is_refused() -> None:
    assert "twice" in faults('{"accounts": [], "accounts": [], "seats": []}')


def test_breached_password_is_a_fault(tmp_path: Path) -> None:
    password = "nine lanterns in fog"
    breached = tmp_path / "breached.txt"
    breached.write_text(hashlib.sha1(password.encode()).hexdigest().upper() + ":2\n")
    changed = document()
    changed["seats"][0]["password"] = password
    with pytest.raises(OperatorError, match=r"\$\.seats\[0\]\.password: This password was published"):
        read_directory(json.dumps(changed), breached)
