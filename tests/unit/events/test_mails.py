"""Mails to a real mail server: content, limits, replies, TLS and authentication."""

import re
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTPUTF8
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from structlog.testing import capture_logs

from daybreak.access import operators, passwords
from daybreak.access.directory import changes
from daybreak.credentials.mail_tokens import verify_unsubscribe_token
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.errors import OperatorError
from daybreak.domain.events import ACCOUNT_EVENTS, OPERATOR_EVENTS, SECURITY_EVENTS, DeliveryState, EventType
from daybreak.domain.identity import Seat
from daybreak.events.deliverer import Deliverer
from daybreak.events.mail_server import MailServer as MailClient
from daybreak.settings import MailSettings
from daybreak.state.statements import PreparedRead
from tests.configured import configured
from tests.parts.certificates import own_certificate
from tests.parts.mail_server import MailServer, content_of, mail_server
from tests.parts.webhook_receiver import Receiver
from tests.unit.access.instance import ALPHA, INES, LEON, OMAR, ROSA
from tests.unit.events.conftest import Events, wait_for_tasks

EXAMPLES: dict[EventType, dict[str, object]] = {
    EventType.SNAPSHOT_PUBLISHED: {"snapshot_id": "s", "version": 7, "as_of": "2026-11-20T03:30:00Z"},
    EventType.SNAPSHOT_LATE: {
        "day": "2026-11-20",
        "reason": "Today's files failed to build.",
        "next_attempt_at": "2026-11-20T09:30:00Z",
        "next_expected_at": "2026-11-20T10:00:00Z",
    },
    EventType.SNAPSHOT_RECOVERED: {"day": "2026-11-20", "as_of": "2026-11-20T09:40:00Z"},
    EventType.SNAPSHOT_HELD: {
        "snapshot_id": "s",
        "as_of": "2026-11-20T03:30:00Z",
        "finding_count": 2,
        "findings": ["members: down from 100", "<b>campaigns</b>"],
    },
    EventType.SNAPSHOT_FAILED: {"snapshot_id": "s", "day": None, "code": "disk_short", "reason": "The disk is full."},
    EventType.TOKEN_EXPIRING: {
        "name": "night\nly",
        "last_four": "ab12",
        "client_id": ALPHA,
        "expires_at": "2026-12-04T09:00:00Z",
    },
    EventType.TOKEN_IDLE: {
        "name": "nightly",
        "last_four": "ab12",
        "client_id": ALPHA,
        "last_used_at": "2026-11-17T04:02:00Z",
    },
    EventType.TOKEN_LEAKED: {"name": "nightly", "last_four": "ab12", "client_id": ALPHA},
    EventType.SECOND_FACTOR_CHANGED: {"change": "passkey_added", "address": "192.0.2.7"},
    EventType.PASSWORD_CHANGED: {"change": "changed", "address": "192.0.2.7"},
    EventType.WEBHOOK_DISABLED: {
        "url": "https://example.org/",
        "reason": "410",
        "created_by": ROSA,
        "client_id": ALPHA,
    },
}


@pytest.fixture
def server(events: Events) -> Iterator[MailServer]:
    """A mail server of the instance."""
    with mail_server() as found:
        events.change(mail={"url": found.url, "sender": "exports@example.org"})
        yield found


def _make_operator(events: Events, seat_id: str) -> None:
    events.instance.write(lambda stores: stores.seats.set_operator(seat_id, operator=True))


def _emit_to(events: Events, type_: EventType, seat_id: str = ROSA) -> None:
    single = type_ not in (*ACCOUNT_EVENTS, *OPERATOR_EVENTS)
    events.emit(type_, data=EXAMPLES[type_], seat_id=seat_id if single else None, client_id=ALPHA if single else None)


async def test_late_event_is_mailed_once_to_each_seat_by_default(events: Events, server: MailServer) -> None:
    _make_operator(events, ROSA)
    _emit_to(events, EventType.SNAPSHOT_LATE)
    await events.deliver()
    # Rosa has two active accounts and is an operator. Leon's only account is inactive.
    assert sorted(server.recipients) == ["ines@example.org", "omar@example.org", "rosa@example.org"]
    await events.deliver()
    assert len(server.mails) == 3


async def test_mail_shows_times_in_the_zone_of_its_seat(events: Events, server: MailServer) -> None:
    events.instance.write(lambda stores: stores.seats.set_display(ROSA, "America/New_York", "1,234.5"))
    _emit_to(events, EventType.SNAPSHOT_LATE)
    await events.deliver()
    texts = {mail["To"]: content_of(mail) for mail in server.mails}
    assert "20 Nov 2026, 04:30 EST" in texts["rosa@example.org"]
    assert "20 Nov 2026, 09:30 UTC" in texts["omar@example.org"]


async def test_mail_has_text_html_and_unsubscribe_headers(events: Events, server: MailServer) -> None:
    _emit_to(events, EventType.SNAPSHOT_LATE)
    await events.deliver()
    mail = next(each for each in server.mails if each["To"] == "rosa@example.org")
    assert mail["From"] == "Daybreak <exports@example.org>"
    assert mail["Subject"] == "Today's files are late (2026-11-20)"
    assert mail["Auto-Submitted"] == "auto-generated"
    for kind, reason in (
        ("plain", "Today's files failed to build."),
        ("html", "Today&#39;s files failed to build."),
    ):
        text = content_of(mail, kind)
        assert "20 Nov 2026, 09:30 UTC" in text
        assert "/dashboard/" in text
        assert reason in text
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    # As sent: programs read a URL neither folded nor as encoded words.
    sent = server.contents[server.mails.index(mail)].decode()
    link = re.search(r"\r\nList-Unsubscribe: <https://data\.example\.org/dashboard/unsubscribe/(\S+)>\r\n", sent)
    assert link is not None
    keyring = events.instance.services.keyring.current()
    assert verify_unsubscribe_token(link[1], keyring=keyring) == (ROSA, "snapshot.late")
    assert verify_unsubscribe_token(link[1].replace(ROSA, OMAR), keyring=keyring) is None


@pytest.mark.parametrize("type_", EXAMPLES)
async def test_every_event_has_a_mail(events: Events, server: MailServer, type_: EventType) -> None:
    _make_operator(events, ROSA)
    events.instance.put_grant(ROSA, ALPHA, roles=("owner",))
    if type_ not in SECURITY_EVENTS:
        events.instance.write(lambda stores: stores.notifications.choose(ROSA, {type_: True}))
    _emit_to(events, type_)
    await events.deliver()
    mail = next(each for each in server.mails if each["To"] == "rosa@example.org")
    assert "https://data.example.org/dashboard/" in content_of(mail)
    assert "None" not in content_of(mail)
    assert all(content.isascii() for content in server.contents), "not every server accepts other bytes"
    assert "<b>" not in content_of(mail, "html")
    assert "\n" not in str(mail["Subject"])


async def test_mail_about_new_files_says_what_changed(events: Events, server: MailServer) -> None:
    events.instance.write(lambda stores: stores.notifications.choose(ROSA, {EventType.SNAPSHOT_PUBLISHED: True}))
    events.publish("s1", {"members": 3})
    events.publish("s2", {"members": 5}, {"members": ResourceDelta(3, 5, inserted=2, added=2)})
    await events.deliver()
    texts = [" ".join(content_of(mail).split()) for mail in server.mails]
    sentences = "Alpha Band: Member Details has 2 new Members. One file is ready."
    assert sorted(sentences in text for text in texts) == [False, True]


async def test_account_is_read_once_for_all_recipients(
    events: Events, server: MailServer, receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = receive()
    chosen = {EventType.SNAPSHOT_PUBLISHED: True}
    events.instance.write(lambda stores: stores.notifications.choose(ROSA, chosen))
    events.instance.write(lambda stores: stores.notifications.choose(OMAR, chosen))
    events.instance.put_grant(OMAR, ALPHA)
    for number in range(5):
        events.add_webhook(receiver.url(f"/{number}"))
    events.publish("s1", {"members": 3})
    await events.deliver()
    events.publish("s2", {"members": 5}, {"members": ResourceDelta(3, 5, inserted=2, added=2)})
    statements: list[str] = []
    execute = PreparedRead.all

    def recorded(read: PreparedRead, connection: sa.Connection, **values: str) -> Iterable[Sequence[Any]]:
        statements.append(str(read._select))
        return execute(read, connection, **values)

    monkeypatch.setattr(PreparedRead, "all", recorded)
    await events.deliver()
    assert (len(receiver.received), len(server.mails)) == (10, 4)
    # Once for the five webhooks, and once for the two mails.
    assert sum("snapshot_deltas.resource," in each for each in statements) == 2


async def test_choices_of_seats_are_respected(events: Events, server: MailServer) -> None:
    events.instance.write(lambda stores: stores.notifications.choose(ROSA, {EventType.SNAPSHOT_LATE: False}))
    events.instance.write(lambda stores: stores.notifications.choose(OMAR, {EventType.SNAPSHOT_PUBLISHED: True}))
    events.instance.write(lambda stores: stores.notifications.choose(LEON, {EventType.SNAPSHOT_PUBLISHED: True}))
    events.instance.write(lambda stores: stores.notifications.choose(ROSA, {EventType.PASSWORD_CHANGED: False}))
    _emit_to(events, EventType.SNAPSHOT_LATE)
    _emit_to(events, EventType.SNAPSHOT_PUBLISHED)
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    assert sorted(server.recipients) == ["ines@example.org", "omar@example.org", "omar@example.org"]


async def test_held_snapshots_are_mailed_to_operators_only(events: Events, server: MailServer) -> None:
    _make_operator(events, INES)
    choice = {EventType.SNAPSHOT_HELD: True}
    events.instance.write(lambda stores: stores.notifications.choose(ROSA, choice))
    events.instance.write(lambda stores: stores.notifications.choose(INES, choice))
    _emit_to(events, EventType.SNAPSHOT_HELD)
    await events.deliver()
    assert server.recipients == ["ines@example.org"]


async def test_three_of_ten_mails_a_day_are_kept_for_alarms(events: Events, server: MailServer) -> None:
    for _ in range(12):
        _emit_to(events, EventType.TOKEN_EXPIRING)
    await events.deliver()
    for _ in range(4):
        _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    subjects = Counter(mail["Subject"] for mail in server.mails)
    assert sorted(subjects.values()) == [3, 7]
    assert subjects["Your password was changed"] == 3
    skipped = Counter(each.detail for each in events.deliveries(state=DeliveryState.SKIPPED))
    assert skipped == {"The seat received 7 mails within a day.": 5, "The seat received 10 mails within a day.": 1}
    events.instance.advance(days=1)
    _emit_to(events, EventType.TOKEN_EXPIRING)
    await events.deliver()
    assert len(server.mails) == 11


async def test_no_mail_without_a_mail_server(events: Events) -> None:
    _emit_to(events, EventType.SNAPSHOT_LATE)
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    assert events.deliveries() == []


async def test_temporary_refusal_is_retried_with_the_same_message_id(events: Events, server: MailServer) -> None:
    server.reply = lambda number: "451 try later" if number == 1 else None
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    (delivery,) = events.deliveries()
    assert (delivery.state, delivery.status, delivery.detail) == (DeliveryState.PENDING, 451, "try later")
    events.instance.advance(seconds=5)
    await events.deliver()
    (mail,) = server.mails
    assert mail["Message-ID"] == f"<{delivery.delivery_id}@data.example.org>"


async def test_permanent_refusal_fails(events: Events, server: MailServer) -> None:
    server.reply = lambda _number: "554 refused"
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    (delivery,) = events.deliveries()
    assert (delivery.state, delivery.status, delivery.detail) == (DeliveryState.FAILED, 554, "refused")


async def test_refused_address_is_not_logged(events: Events, server: MailServer) -> None:
    server.reply = lambda _number: "550 <rosa@example.org>: mailbox rosa@example.org is full"
    _emit_to(events, EventType.PASSWORD_CHANGED)
    with capture_logs() as lines:
        await events.deliver()
    (attempted,) = [line for line in lines if line["event"] == "mail.attempted"]
    assert attempted["detail"] == "… mailbox … is full"
    (delivery,) = events.deliveries()
    assert delivery.detail == "<rosa@example.org>: mailbox rosa@example.org is full"


async def test_mail_server_that_is_down_is_retried(events: Events) -> None:
    with mail_server() as gone:
        url = gone.url
    events.change(mail={"url": url, "sender": "exports@example.org"})
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    (delivery,) = events.deliveries()
    assert delivery.state is DeliveryState.PENDING
    assert delivery.detail.startswith("The mail server cannot be used")


async def test_mails_wait_minutes_for_a_mail_server_that_is_back(events: Events, server: MailServer) -> None:
    events.change(mail={"url": "smtp://127.0.0.1:1"})
    for _ in range(3):
        _emit_to(events, EventType.PASSWORD_CHANGED)
    ticks = [0.0]
    context = replace(events.context, ticks=lambda: ticks[0])
    deliverer = Deliverer(context)

    async def run_after(seconds: int) -> None:
        events.instance.advance(seconds=seconds)
        ticks[0] += seconds
        for _ in range(3):
            await deliverer.step()
            await wait_for_tasks(deliverer)

    for _ in range(9):
        await run_after(300)
    assert sum(each.attempts for each in events.deliveries()) == 9, "one attempt tests the server for all mails"
    deliverer = Deliverer(replace(context, settings=configured(events.settings, mail={"url": server.url})))
    await run_after(300)
    assert len(server.mails) == 3


async def test_disabled_seat_receives_nothing(events: Events, server: MailServer) -> None:
    _emit_to(events, EventType.PASSWORD_CHANGED)
    events.instance.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
    await events.deliver()
    assert server.mails == []


async def test_owner_is_mailed_when_a_webhook_is_disabled(events: Events, server: MailServer) -> None:
    events.instance.put_grant(ROSA, ALPHA, roles=("owner",))
    events.instance.put_grant(OMAR, ALPHA, roles=("admin",))
    _emit_to(events, EventType.WEBHOOK_DISABLED)
    await events.deliver()
    assert server.recipients == ["rosa@example.org"]
    # Without the seat that created it, every owner and admin receives it.
    events.instance.put_grant(ROSA, ALPHA, roles=("analyst",))
    _emit_to(events, EventType.WEBHOOK_DISABLED)
    await events.deliver()
    assert server.recipients == ["rosa@example.org", "omar@example.org"]


async def test_reset_token_is_stored_as_a_digest_only(events: Events, server: MailServer) -> None:
    events.emit(EventType.PASSWORD_RESET_REQUESTED, data={}, seat_id=ROSA)
    await events.deliver()
    (mail,) = server.mails
    found = re.search(r"/dashboard/reset-password\?token=(reset_[\w-]+)", content_of(mail))
    assert found is not None
    content = b"".join(path.read_bytes() for path in events.instance.path.glob("state.db*"))
    assert found[1].encode() not in content
    assert "List-Unsubscribe" not in mail
    services = replace(events.instance.services, settings=events.settings)
    assert await passwords.seat_of_link(services, found[1])


async def test_invitation_works_for_seven_days(events: Events, server: MailServer) -> None:
    invited = Seat("5" * 32, "new@example.org")
    events.instance.write(lambda stores: changes.add_seat(stores, invited, events.instance.now[0], actor="operator"))
    events.instance.write(
        lambda stores: operators.invite(stores, invited, events.instance.now[0], actor="kim@example.org")
    )
    await events.deliver()
    (mail,) = server.mails
    assert "kim@example.org created a seat for you" in content_of(mail)
    found = re.search(r"token=(reset_[\w-]+)", content_of(mail))
    assert found is not None
    services = replace(events.instance.services, settings=events.settings)
    events.instance.now[0] += timedelta(days=6, hours=23)
    assert await passwords.seat_of_link(services, found[1])
    events.instance.now[0] += timedelta(hours=2)
    assert not await passwords.seat_of_link(services, found[1])


def test_seat_with_a_password_is_not_invited(events: Events) -> None:
    rosa = events.instance.seat(ROSA)
    with pytest.raises(OperatorError, match="has a password"):
        events.instance.write(lambda stores: operators.invite(stores, rosa, events.instance.now[0], actor="operator"))


async def test_request_before_a_sign_out_is_not_mailed(events: Events, server: MailServer) -> None:
    events.emit(EventType.PASSWORD_RESET_REQUESTED, data={}, seat_id=ROSA)
    seat, now = events.instance.seat(ROSA), events.instance.now[0] + timedelta(seconds=1)
    events.instance.write(lambda stores: operators.sign_out(stores, seat, now, actor="operator"))
    await events.deliver()
    assert server.mails == []
    (delivery,) = events.deliveries()
    assert (delivery.state, delivery.detail) == (
        DeliveryState.SKIPPED,
        "The credentials of the seat ended after the request.",
    )


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MailServer]]:
    """A function that starts a mail server with a certificate that this process trusts."""
    own_certificate(tmp_path / "own.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(mail_server(tmp_path / "own.pem", **options))


@pytest.mark.parametrize("implicit_tls", [False, True])
async def test_mail_is_encrypted(events: Events, encrypted: Callable[..., MailServer], implicit_tls: bool) -> None:
    server = encrypted(implicit_tls=implicit_tls)
    events.change(mail={"url": server.url, "sender": "exports@example.org"})
    assert MailClient(events.settings.mail).check() == f"{server.url}, from exports@example.org"
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    assert server.was_encrypted == [True]


async def test_mail_is_authenticated(events: Events, encrypted: Callable[..., MailServer]) -> None:
    server = encrypted(password_required=True)
    login = {"username": "exports", "password": SecretStr("correct horse")}
    events.change(mail={"url": server.url, "sender": "exports@example.org", **login})
    assert MailClient(events.settings.mail).check() == f"{server.url} as exports, from exports@example.org"
    _emit_to(events, EventType.PASSWORD_CHANGED)
    await events.deliver()
    assert (len(server.mails), server.logins[-1]) == (1, ("exports", "correct horse"))
    wrong = events.settings.mail.model_copy(update={"password": SecretStr("a wrong one")})
    with pytest.raises(OperatorError, match=r"mail\.url.*cannot be used: 535") as refused:
        MailClient(wrong).check()
    assert "a wrong one" not in refused.value.message
    anonymous = events.settings.mail.model_copy(update={"username": ""})
    with pytest.raises(OperatorError, match=r"mail\.url.*cannot be used: 530"):
        MailClient(anonymous).check()
    outcome = MailClient(wrong).send(message_to("ana@example.org"))
    assert (outcome.status, outcome.is_permanent) == (535, False), "the mail is sent when the password is corrected"


def message_to(address: str) -> EmailMessage:
    message = EmailMessage(policy=SMTPUTF8)
    message["From"], message["To"] = "exports@example.org", address
    message.set_content("text")
    return message


def test_server_may_close_after_each_mail(server: MailServer) -> None:
    client, server.closes = MailClient(MailSettings(url=server.url, sender="exports@example.org")), True
    assert [client.send(message_to(f"{name}@example.org")).status for name in "abc"] == [250] * 3
    client.disconnect()


@pytest.mark.parametrize("sender", ["exports@example.org", "expédition@example.org"])
def test_address_that_the_server_cannot_accept_fails(sender: str) -> None:
    with mail_server(letters=False) as server:
        outcome = MailClient(MailSettings(url=server.url, sender=sender)).send(message_to("zoë@example.org"))
        is_usable = sender.isascii()
        with nullcontext() if is_usable else pytest.raises(OperatorError, match="SMTPUTF8"):
            MailClient(MailSettings(url=server.url, sender=sender)).check()
    assert "SMTPUTF8" in outcome.detail
    assert outcome.is_permanent == is_usable, "another sender may be set"


@contextmanager
def server_that_sends(*parts: bytes) -> Iterator[str]:
    """A server that sends one part after another, whatever it receives. The value is its URL."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            for part in parts:
                connection.sendall(part)
                is_ended.wait(0.01)

    is_ended = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve)
        thread.start()
        yield f"smtp://127.0.0.1:{listener.getsockname()[1]}"
        is_ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((b"220 ", *[b"x"] * 100, b"\r\n"), "Connection unexpectedly closed: timed out"),
        ((b"220-x\r\n" * 100_000, b"220 x\r\n"), "Connection unexpectedly closed: the server sent too much"),
        ((b"HTTP/1.1 400 Bad Request\r\n",), "it does not answer with SMTP"),
        ((b"554 go\0 \x1b[31maway\r\n",), "554 go [31maway"),
        ((b"220 x\r\n250-x\r\n250 AUTH PLAIN\r\n334 x\r\n",), "it asks for the password in an invalid way"),
    ],
    ids=["slow", "endless", "not SMTP", "control characters", "not base64"],
)
def test_answer_that_no_server_should_send_is_reported(parts: Sequence[bytes], reason: str) -> None:
    with server_that_sends(*parts) as url:
        settings = MailSettings(url=url, sender="exports@example.org", username="exports", password=SecretStr("secret"))
        outcome = MailClient(settings, mail_seconds=0.5).send(message_to("ana@example.org"))
    assert (outcome.detail, outcome.is_permanent) == (f"The mail server cannot be used: {reason}.", False)


def test_refused_connection_is_reported_without_number(events: Events) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"smtp://127.0.0.1:{closed.getsockname()[1]}"
    events.change(mail={"url": url, "sender": "exports@example.org"})
    with pytest.raises(OperatorError) as refused:
        MailClient(events.settings.mail).check()
    assert refused.value.message == f"mail.url: {url} cannot be used: Connection refused."


def test_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    own_certificate(tmp_path / "own.pem")
    for certificate, url, fault in (
        (tmp_path / "own.pem", "smtp:", "certificate verify failed: self-signed certificate"),
        (None, "smtps:", "the port does not begin with TLS. Use smtp://, which requires STARTTLS"),
    ):
        with mail_server(certificate) as server:
            settings = MailSettings(url=server.url.replace("smtp:", url), sender="exports@example.org")
            with pytest.raises(OperatorError) as refused:
                MailClient(settings).check()
            assert refused.value.message == f"mail.url: {settings.url} cannot be used: {fault}."


def test_server_elsewhere_must_offer_tls() -> None:
    # The address stands for another machine: only 127.0.0.1 counts as this one.
    with mail_server(host="127.0.0.2") as server:
        settings = MailSettings(url=server.url, sender="exports@example.org")
        with pytest.raises(OperatorError, match="STARTTLS"):
            MailClient(settings).check()


@pytest.mark.parametrize("type_", SECURITY_EVENTS)
async def test_mail_about_security_has_no_unsubscribe_link(
    events: Events, server: MailServer, type_: EventType
) -> None:
    _emit_to(events, type_)
    await events.deliver()
    (mail,) = server.mails
    assert mail["List-Unsubscribe"] is None
    assert mail["List-Unsubscribe-Post"] is None
    assert "unsubscribe" not in mail.as_string().lower()


async def test_names_cannot_change_how_a_mail_is_read(events: Events, server: MailServer) -> None:
    name = "=?utf-8?q?=0D=0ABcc=3A_victim=40v.example?= night\x1b[31m\u202ely\u2028\u2066\r\nUnsubscribe: https://evil.example/\x85"
    events.emit(
        EventType.TOKEN_LEAKED, data={**EXAMPLES[EventType.TOKEN_LEAKED], "name": name}, seat_id=ROSA, client_id=ALPHA
    )
    await events.deliver()
    (mail,) = server.mails
    for kind in ("plain", "html"):
        text = content_of(mail, kind).replace("\r\n", "\n")
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", text)
        assert not re.search("^Unsubscribe", text, re.MULTILINE)
    assert mail["Subject"].isprintable()
    assert mail["Bcc"] is None
