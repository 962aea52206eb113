"""The content of each mail, as data for the templates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from daybreak.access.passwords import link_url
from daybreak.domain.display import format_count, local, zone_name
from daybreak.domain.events import Delivery, EventType
from daybreak.domain.identity import GrantedAccount, Seat
from daybreak.settings import Settings

MAX_ACCOUNTS = 10
"""Maximum number of accounts that a mail names."""


@dataclass(frozen=True, slots=True)
class Link:
    """A button in HTML, a line in plain text."""

    label: str
    url: str


@dataclass(frozen=True, slots=True)
class MailContent:
    """Subject, sentences, facts with their names, a link, and why the seat receives the mail."""

    subject: str
    text: str
    facts: Sequence[tuple[str, str]]
    link: Link
    advice: str = ""


@dataclass(frozen=True, slots=True)
class MailSubject:
    """What a mail is about: the data of the event, its seat, and the accounts whose files the seat may download.

    `briefs` are sentences about the published files of the first accounts, by client id.
    """

    settings: Settings
    data: Mapping[str, object]
    seat: Seat
    accounts: Sequence[GrantedAccount]
    briefs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """Return a value of the event as text on one line, empty when it is missing."""
        value = self.data.get(name)
        return "" if value is None else " ".join(str(value).split())

    @property
    def at(self) -> datetime:
        """When the event happened."""
        return datetime.fromisoformat(self.value("at"))

    def time(self, name: str) -> str:
        """Return an instant as `25 Nov 2026, 04:00 UTC` in the zone of the reader, empty when it is missing."""
        text = self.value(name)
        instant = local(datetime.fromisoformat(text)) if text else None
        return "" if instant is None else f"{instant:%-d %b %Y, %H:%M} {zone_name(instant)}"

    def account_page(self, path: str, client_id: str = "") -> str:
        """Return the URL of a page on an account: the one named, or the first one of the seat."""
        chosen = client_id or (self.accounts[0].account.client_id if self.accounts else "")
        return (
            f"{self.settings.base_url}/dashboard/{chosen}/{path}" if chosen else f"{self.settings.base_url}/dashboard/"
        )

    @property
    def account_names(self) -> str:
        """Return the names of the accounts; those after the tenth are counted."""
        names = [" ".join(each.account.name.split()) for each in self.accounts]
        more = len(names) - MAX_ACCOUNTS
        return ", ".join(names[:MAX_ACCOUNTS]) + (f" and {more} more" if more > 0 else "")


def content_of(delivery: Delivery, subject: MailSubject) -> MailContent:
    """Return the content of the mail about an event."""
    return _CONTENTS[delivery.type](subject)


def _published(subject: MailSubject) -> MailContent:
    briefs = [
        (" ".join(each.account.name.split()), " ".join(subject.briefs[each.account.client_id]))
        for each in subject.accounts
        if subject.briefs.get(each.account.client_id)
    ]
    return MailContent(
        "New files are ready",
        "New files were published.",
        [("Data as of", subject.time("as_of")), ("Accounts", subject.account_names), *briefs],
        Link("Open files", subject.account_page("files")),
    )


def _late(subject: MailSubject) -> MailContent:
    facts = [("Reason", subject.value("reason"))]
    if subject.value("next_attempt_at"):
        facts.append(("Next attempt", subject.time("next_attempt_at")))
    facts.append(("Expected", subject.time("next_expected_at")))
    return MailContent(
        f"Today's files are late ({subject.value('day')})",
        "The publication time has passed without new files. The previous files stay available.",
        facts,
        Link("Open files", subject.account_page("files")),
    )


def _recovered(subject: MailSubject) -> MailContent:
    return MailContent(
        "The late files have arrived",
        f"The files of {subject.value('day')} were late. New files are now available.",
        [("Data as of", subject.time("as_of"))] if subject.value("as_of") else [],
        Link("Open files", subject.account_page("files")),
    )


def _held(subject: MailSubject) -> MailContent:
    findings = subject.data.get("findings")
    details = [" ".join(str(each).split()) for each in findings] if isinstance(findings, list) else []
    return MailContent(
        f"A snapshot is held: {format_count(int(subject.value('finding_count')), 'finding')}",
        "The guard blocked the publication. The previous files stay published until an operator accepts or discards "
        "the snapshot.",
        [("Data as of", subject.time("as_of")), *(("Finding", detail) for detail in details)],
        Link("Review snapshot", _run_page(subject)),
    )


def _failed(subject: MailSubject) -> MailContent:
    return MailContent(
        "A run failed",
        "The run ended with an error that a retry did not fix. The previous files stay published.",
        [
            ("Reason", subject.value("reason")),
            ("Code", subject.value("code")),
            ("Day", subject.value("day") or "by hand"),
        ],
        Link("Open run", _run_page(subject)),
    )


def _directory_failing(subject: MailSubject) -> MailContent:
    return MailContent(
        "Seats are not synchronized with the platform",
        "The synchronization of accounts and seats has failed for a day. People who left may still have access. Run "
        "`daybreakd directory sync`.",
        [("Since", subject.time("failing_since")), ("Reason", subject.value("reason"))],
        Link("Open people", f"{subject.settings.base_url}/dashboard/operator/people"),
    )


def _expiring(subject: MailSubject) -> MailContent:
    return MailContent(
        f"API token “{subject.value('name')}” expires soon",
        "Scripts that use this token stop working when it expires. Create a new token and replace it.",
        [*_token(subject), ("Expires", subject.time("expires_at"))],
        Link("Open API tokens", subject.account_page("settings/tokens", subject.value("client_id"))),
    )


def _idle(subject: MailSubject) -> MailContent:
    return MailContent(
        f"A daily script stopped: API token “{subject.value('name')}”",
        "Files were fetched with this token every day, and then not for three days. Check that the script still runs.",
        [*_token(subject), ("Last use", subject.time("last_used_at"))],
        Link("Open activity", subject.account_page("activity", subject.value("client_id"))),
    )


def _leaked(subject: MailSubject) -> MailContent:
    return MailContent(
        f"API token “{subject.value('name')}” was found in public and revoked",
        "The secret of this token became public. The token was revoked, and scripts that use it stopped working. "
        "Remove the secret from where it was published, and create a new token.",
        _token(subject),
        Link("Open activity", subject.account_page("activity", subject.value("client_id"))),
    )


_FACTOR_CHANGES = {
    "authenticator_enrolled": "An authenticator app was set up",
    "recovery_codes_replaced": "The recovery codes were replaced",
    "passkey_added": "A passkey was added",
    "passkey_removed": "A passkey was removed",
    "reset_by_operator": "An operator removed the second factor",
}
_PASSWORD_CHANGES = {
    "changed": "The password was changed",
    "set_by_operator": "An operator set a new password",
    "reset_by_mail": "The password was set with a link",
}


def _security(title: str, changes: Mapping[str, str], subject: MailSubject) -> MailContent:
    address = [("Address", subject.value("address"))] if subject.value("address") else []
    contact = subject.settings.operator_contact
    return MailContent(
        title,
        f"{changes[subject.value('change')]} for {subject.seat.email}.",
        [("When", subject.time("at")), *address],
        Link("Open security settings", subject.account_page("settings/security")),
        "If this was not you, contact your operator immediately" + (f": {contact}." if contact else "."),
    )


def _webhook_disabled(subject: MailSubject) -> MailContent:
    return MailContent(
        "A webhook was disabled",
        "Events are no longer sent to this webhook. If the account needs it, check its URL, take the webhook over and "
        "rotate its secret. Otherwise remove it."
        if subject.data.get("ownerless")
        else "Events are no longer sent to this webhook. Fix the receiver, then enable the webhook and retry the "
        "deliveries that failed.",
        [("URL", subject.value("url")), ("Reason", subject.value("reason"))],
        Link("Open webhooks", subject.account_page("settings/webhooks", subject.value("client_id"))),
    )


def _token(subject: MailSubject) -> list[tuple[str, str]]:
    named = [
        " ".join(each.account.name.split())
        for each in subject.accounts
        if each.account.client_id == subject.value("client_id")
    ]
    return [("Token", f"…{subject.value('last_four')}"), *(("Account", name) for name in named)]


def _run_page(subject: MailSubject) -> str:
    return f"{subject.settings.base_url}/dashboard/operator/runs/{subject.value('snapshot_id')}"


_CONTENTS: Mapping[EventType, Callable[[MailSubject], MailContent]] = {
    EventType.SNAPSHOT_PUBLISHED: _published,
    EventType.SNAPSHOT_LATE: _late,
    EventType.SNAPSHOT_RECOVERED: _recovered,
    EventType.SNAPSHOT_HELD: _held,
    EventType.SNAPSHOT_FAILED: _failed,
    EventType.DIRECTORY_FAILING: _directory_failing,
    EventType.TOKEN_EXPIRING: _expiring,
    EventType.TOKEN_IDLE: _idle,
    EventType.TOKEN_LEAKED: _leaked,
    EventType.SECOND_FACTOR_CHANGED: partial(_security, "Your second factor was changed", _FACTOR_CHANGES),
    EventType.PASSWORD_CHANGED: partial(_security, "Your password was changed", _PASSWORD_CHANGES),
    EventType.WEBHOOK_DISABLED: _webhook_disabled,
}


def content_with_link(delivery: Delivery, subject: MailSubject, token: str) -> MailContent:
    """Return the mail with the link that sets a password: an invitation, or the reset of a forgotten password."""
    url = link_url(subject.settings, token)
    if delivery.type is EventType.SEAT_INVITED:
        return MailContent(
            "You are invited to Daybreak",
            f"{subject.value('invited_by')} created a seat for you. Choose a password to sign in. The link works "
            "once, for 7 days.",
            [("Email", subject.seat.email)],
            Link("Choose password", url),
            "If you did not expect this invitation, ignore this mail.",
        )
    return MailContent(
        "Set a new password",
        f"Someone asked to reset the password of {subject.seat.email}. The link works once, for 30 minutes.",
        [],
        Link("Set new password", url),
        "If this was not you, ignore this mail. Your password stays unchanged.",
    )


def no_password(subject: MailSubject) -> MailContent:
    """Return the mail to a seat that signs in with single sign-on only."""
    name = subject.settings.oidc.name
    return MailContent(
        "You sign in without a password",
        f"Someone asked to reset the password of {subject.seat.email}. This seat has no password: it signs in with "
        f"{name}.",
        [],
        Link("Sign in", f"{subject.settings.base_url}/dashboard/sign-in"),
        "If this was not you, ignore this mail.",
    )
