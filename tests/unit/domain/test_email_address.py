"""The rule for email addresses."""

from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTPUTF8

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.email_address import is_email_address

PIECES = st.sampled_from(
    [*"aZ9@.,;:<>[]()\\\" \t\n\0-_+'", "é", "\u202e", "\u200b", "\u00a0", "xn--", "..", "example.org"]
)


@pytest.mark.parametrize(
    "address",
    [
        "ana@example.org",
        "o'brien+x@mail.example.org",
        "jürgen@bücher.example",
        "x@localhost",
        "ana@intranet",
        "cafe\u0301@example.org",
        "a" * 80 + "@example.org",
    ],
)
def test_address_is_valid(address: str) -> None:
    assert is_email_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "ana@[example.org",
        "ana@[192.0.2.1]",
        "ana@192.0.2.1",
        "ana,victim@example.org",
        "ana;victim@example.org",
        "<ana@example.org",
        "Ana <ana@example.org>",
        "ana@example.org\r\nBcc: victim@example.org",
        "ana@example.org\n",
        "ana@exam\u202eple.org",
        "ana\u200b@example.org",
        "ana\u3164@example.org",
        "ana\u034f@example.org",
        "ana\ufe0f@example.org",
        '"a b"@example.org',
        "ana@victim@example.org",
        "=?utf-8?q?ana=0D=0ABcc=3A_victim=40v.example?=@example.org",
        "ana.=?utf-8?b?LA==?=@example.org",
        "ana@example..org",
        "ana@example.org.",
        "ana@-example.org",
        ".ana@example.org",
        "ana(comment)@example.org",
        "ana@",
        "@example.org",
        "",
        "ana\0@example.org",
        "ana\udc80@example.org",
        "ana@" + "a" * 64 + ".org",
        "ana@" + "a." * 130 + "org",
    ],
)
def test_text_is_not_an_address(address: str) -> None:
    assert not is_email_address(address)


@given(st.lists(PIECES, max_size=9).map("".join))
def test_valid_address_is_one_recipient_of_a_mail(text: str) -> None:
    if is_email_address(text):
        local, _, domain = text.rpartition("@")
        message = EmailMessage(policy=SMTPUTF8)
        message["To"] = Address(username=local, domain=domain)
        assert [each.addr_spec for each in message["To"].addresses] == [text]
