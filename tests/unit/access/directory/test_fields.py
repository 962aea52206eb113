"""Validation of accounts, seats and grants, the same for documents and for rows of a database."""

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from daybreak.access.directory.document import read_directory
from daybreak.access.directory.platform_rows import directory_from_rows
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, BillingState, Grant, Seat
from daybreak.domain.visible_text import HIDDEN_CHARACTERS
from daybreak.state.directory import Directory

CLIENT = "aaaaaaaa-0000-4000-8000-000000000001"
SEAT = "bbbbbbbb-0000-4000-8000-000000000001"
ACCOUNT: dict[str, Any] = {
    "client_id": CLIENT, "first_name": "Ada", "last_name": "Lo", "phone_number": "+15550100",
    "phone_number_type": "long_code",
}  # fmt: skip
SEAT_FIELDS: dict[str, Any] = {"seat_id": SEAT, "email": "ada@example.org"}
ACCESS: dict[str, Any] = {"client_id": CLIENT}


def from_document(account: dict[str, Any], seat: dict[str, Any], access: dict[str, Any]) -> Directory:
    """Read a directory document."""
    document = {"accounts": [account], "seats": [seat | {"access": [access]}]}
    return read_directory(json.dumps(document)).directory


def from_rows(account: dict[str, Any], seat: dict[str, Any], access: dict[str, Any]) -> Directory:
    """Read rows of the platform's database. Raises OperatorError for their faults."""
    directory, faults = directory_from_rows([account], [seat], [access | {"seat_id": SEAT}], Directory((), (), ()))
    if faults:
        raise OperatorError("\n".join(faults), code="directory_faults")
    return directory


FORMS = pytest.mark.parametrize("read", [from_document, from_rows])


@FORMS
def test_optional_fields_have_defaults(read: Any) -> None:
    assert read(ACCOUNT, SEAT_FIELDS, ACCESS) == Directory(
        (Account(CLIENT, "Ada", "Lo", "+15550100", "long_code", billing=BillingState()),),
        (Seat(SEAT, "ada@example.org"),),
        (Grant(SEAT, CLIENT),),
    )


@FORMS
@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("account", "client_id", "nonsense"),
        ("account", "client_id", f"{{{CLIENT}}}"),
        ("account", "client_id", 7),
        ("account", "first_name", "x" * 201),
        ("account", "last_name", "nul\0"),
        ("account", "phone_number", "15550100"),
        ("account", "phone_number", "+٣٣٣٣٣٣٣"),
        ("account", "phone_number_type", "carrier_pigeon"),
        ("account", "status", "gone"),
        ("account", "campaign_messages_monthly_used", -1),
        ("account", "campaign_messages_monthly_used", 2**53),
        ("account", "campaign_messages_monthly_used", True),
        ("account", "api_tokens_enabled", "yes"),
        ("account", "second_factor_required", 1),
        ("seat", "seat_id", "nonsense"),
        ("seat", "email", "nobody"),
        ("seat", "email", "two words@example.org"),
        ("seat", "email", f"{'x' * 250}@example.org"),
        ("seat", "disabled", 0),
        ("access", "client_id", SEAT),
        ("access", "roles", "king"),
        ("access", "roles", ["owner", "owner"]),
        ("access", "roles", [["owner"]]),
        ("access", "data_export", "true"),
        ("access", "async_rest_api", 1),
    ],
)
def test_invalid_values_are_refused(read: Any, part: str, field: str, value: object) -> None:
    fields = {"account": ACCOUNT, "seat": SEAT_FIELDS, "access": ACCESS}
    fields[part] = fields[part] | {field: value}
    with pytest.raises(OperatorError) as caught:
        read(**fields)
    assert caught.value.code == "directory_faults"
    assert any(part in caught.value.message for part in (field, "is not listed", "does not exist"))


@FORMS
def test_ids_are_normalized_and_short_codes_accepted(read: Any) -> None:
    account = ACCOUNT | {"client_id": CLIENT.upper().replace("-", ""), "phone_number": "+172727"}
    assert read(account, SEAT_FIELDS, ACCESS).accounts[0] == Account(CLIENT, "Ada", "Lo", "+172727", "long_code")


def test_rows_may_use_other_spellings_and_types() -> None:
    account = {name.upper(): value for name, value in ACCOUNT.items()}
    account |= {"CLIENT_ID": UUID(CLIENT), "STATUS": None, "TRIAL_LENGTH_DAYS": 14}
    read = from_rows(account, SEAT_FIELDS, ACCESS | {"roles": "owner, admin", "data_export": True})
    assert read.accounts[0].active
    assert read.accounts[0].billing == BillingState(trial_length_days=14)
    assert read.grants == (Grant(SEAT, CLIENT, ("owner", "admin"), data_export=True),)


def test_unknown_columns_of_rows_are_refused_with_a_suggestion() -> None:
    account = ACCOUNT | {"Second_Factor_Require": True, "balance": 7}
    with pytest.raises(OperatorError) as refused:
        from_rows(account, SEAT_FIELDS, ACCESS)
    assert refused.value.message.splitlines()[1:] == [
        "  balance: leave it out.",
        "  second_factor_require: did you mean second_factor_required?",
    ]
    with pytest.raises(OperatorError, match=r"directory\.seats .*\n  email_address: did you mean email\?"):
        from_rows(ACCOUNT, {"seat_id": SEAT, "email_address": "ada@example.org"}, ACCESS)
    with pytest.raises(OperatorError, match=r"directory\.access .*\n  data_exports: did you mean data_export\?"):
        from_rows(ACCOUNT, SEAT_FIELDS, ACCESS | {"data_exports": True})


def test_faults_of_rows_name_the_row_and_no_value() -> None:
    directory, faults = directory_from_rows(
        [
            {"client_id": "nonsense", "first_name": "A", "last_name": None, "phone_number": "1"},
            # Two columns were exchanged.
            ACCOUNT | {"phone_number": "long_code", "phone_number_type": "+15550100000"},
        ],
        [SEAT_FIELDS | {"email": "x"}, SEAT_FIELDS, SEAT_FIELDS | {"email": "ADA@example.org"}],
        [{"seat_id": CLIENT, "client_id": SEAT, "roles": "king"}],
        Directory((), (), ()),
    )
    assert faults == [
        "accounts row 1: client_id must be a UUID",
        "accounts row 1: last_name is missing: it must be text of at most 200 characters",
        "accounts row 1: phone_number must be a number such as +15550100000",
        "accounts row 1: phone_number_type is missing: it must be one of long_code, toll_free, short_code",
        f"accounts row 2 ({CLIENT}): phone_number must be a number such as +15550100000",
        f"accounts row 2 ({CLIENT}): phone_number_type must be one of long_code, toll_free, short_code",
        f"seats row 1 ({SEAT}): email must be an email address",
        f"seats row 2 ({SEAT}): its identifier appears twice",
        f"seats row 3 ({SEAT}): its identifier appears twice",
        f"access row 1 ({CLIENT} {SEAT}): roles must be a list of owner, admin, analyst, each at most once",
    ]
    assert directory == Directory((), (), ())


def test_row_with_erased_fields_ends_access() -> None:
    """Platforms erase the fields of accounts and seats when they deactivate them."""
    current = from_rows(ACCOUNT, SEAT_FIELDS, ACCESS)
    erased = {**ACCOUNT, "first_name": None, "phone_number": None, "status": "inactive"}
    seat = {**SEAT_FIELDS, "email": None, "disabled": True}
    directory, faults = directory_from_rows([erased], [seat], [], current)
    assert [each.active for each in directory.accounts] == [False]
    assert [(each.email, each.disabled) for each in directory.seats] == [(SEAT_FIELDS["email"], True)]
    assert len(faults) == 3


def test_disabled_seat_leaves_its_address_to_the_next_seat() -> None:
    other = "9" * 8 + SEAT[8:]
    old, new = {**SEAT_FIELDS, "disabled": True}, {**SEAT_FIELDS, "seat_id": other}
    directory, faults = directory_from_rows([ACCOUNT], [old, new], [], from_rows(ACCOUNT, SEAT_FIELDS, ACCESS))
    assert {each.seat_id: each.disabled for each in directory.seats} == {SEAT: True, other: False}
    assert [each.email for each in directory.seats if not each.disabled] == [SEAT_FIELDS["email"]]
    assert faults == []


def test_whole_decimals_are_counts() -> None:
    used = "campaign_messages_monthly_used"
    for value in (Decimal(7), Decimal("7.00"), 7.0):
        assert from_rows(ACCOUNT | {used: value}, SEAT_FIELDS, ACCESS).accounts[0].campaign_messages_monthly_used == 7
    decimals = map(Decimal, ("7.5", "NaN", "sNaN", "Infinity", "1e999999", "1e-999999", "-1.0", f"{2**52}.25"))
    for refused in (7.5, -1.0, 1e300, float("inf"), *decimals):
        with pytest.raises(OperatorError, match=used):
            from_rows(ACCOUNT | {used: refused}, SEAT_FIELDS, ACCESS)


@FORMS
@pytest.mark.parametrize("name", ["Ada\u202egnp.exe", "Ada\r\nBcc: x", "\x1b[31mAda", "Ada\u2028", "\u2066Ada\u2069"])
def test_characters_that_hide_or_reorder_text_are_removed(read: Any, name: str) -> None:
    account = read(ACCOUNT | {"first_name": name, "last_name": name}, SEAT_FIELDS, ACCESS).accounts[0]
    for text in (account.first_name, account.last_name):
        assert "Ada" in text
        assert text.isprintable()
        assert HIDDEN_CHARACTERS.search(text) is None


@FORMS
@pytest.mark.parametrize("name", ["\ufeffAda", "A\xadda", "Ad\u200ba", "\u3164Ada\U000e0041"])
def test_invisible_characters_are_removed_from_names(read: Any, name: str) -> None:
    assert read(ACCOUNT | {"first_name": name}, SEAT_FIELDS, ACCESS).accounts[0].first_name == "Ada"


@FORMS
def test_names_of_other_scripts_are_unchanged(read: Any) -> None:
    for name in ("\u05d3\u05d5\u05d3", "\u0639\u0644\u064a", "Zo\u00eb O\u2019Neil", "\u0915\u094d\u200d\u0937"):
        assert read(ACCOUNT | {"first_name": name}, SEAT_FIELDS, ACCESS).accounts[0].first_name == name
