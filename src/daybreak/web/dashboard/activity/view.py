"""Template variables of the Activity page, and names of actions, settings and values, some from `labels.toml`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec

from daybreak.domain.audit import AuditEvent
from daybreak.web.dashboard.formatting import (
    EN_DASH,
    format_datetime,
    format_number,
    format_size,
    format_user_agent,
    format_words,
)
from daybreak.web.http.problems import PROBLEMS

_LINK, _FETCH = "link.issued", "file.fetched"
_CHANGE_KEYS = ("before", "after")

Change = tuple[str, str, str]
"""Name of a setting that an event changed, with its values before and after."""


class _Labels(msgspec.Struct, frozen=True):
    """Labels of audit actions by group, and of details."""

    actions: Mapping[str, Mapping[str, str]]
    details: Mapping[str, str]


_LABELS = msgspec.toml.decode((Path(__file__).parent / "labels.toml").read_bytes(), type=_Labels)
ACTION_GROUPS = _LABELS.actions
ACTION_LABELS = {action: label for group in ACTION_GROUPS.values() for action, label in group.items()}


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row: an event, and the link that it opened if the page has it.

    `archived` are the downloads of one archive, of which `event` is the newest. It is empty for other events, and for
    an archive with one file.
    """

    event: AuditEvent
    link: AuditEvent | None = None
    archived: tuple[AuditEvent, ...] = ()

    @property
    def label(self) -> str:
        """What happened."""
        return ACTION_LABELS.get(self.event.action, self.event.action)

    @property
    def subject(self) -> str:
        """What the event is about: a file, a table, a token's name, changed permissions or the format of an export."""
        details = self.event.details
        if self.archived:
            return f"{len(self.archived)} files in one archive"
        if "seat" in details:
            changes = permission_changes(details)
            return f"{details['seat']}: {changes}" if changes else str(details["seat"])
        if "table" in details:
            # Earlier versions of Daybreak recorded only the first version of some ranges.
            versions = [str(details[name]) for name in ("from_version", "version") if name in details]
            return f"{details['table']}, version {' to '.join(versions)}"
        return str(details.get("file") or details.get("name") or details.get("format") or "")

    @property
    def agent(self) -> str:
        return format_user_agent(self.event.user_agent) if self.event.user_agent else ""

    @property
    def succeeded(self) -> bool:
        return self.event.result == "ok"

    @property
    def outcome(self) -> str:
        """Result of an event that did not succeed."""
        return "pending" if (self.event.action, self.event.result) == ("login", "second_factor_required") else "denied"

    @property
    def reason(self) -> str:
        """Why an event did not succeed."""
        result = self.event.result
        return PROBLEMS[result][1] if result in PROBLEMS else result.replace("_", " ")

    @property
    def changes(self) -> list[Change]:
        """Settings that differ between `before` and `after`, and changed notifications, with both values."""
        details = self.event.details
        if self.event.action == "notifications.changed":
            switched = {name: value for name, value in details.items() if isinstance(value, bool)}
            return [(_label_of(name), _value(not on), _value(on)) for name, on in switched.items()]
        before, after = _settings(details.get("before")), _settings(details.get("after"))
        return [
            (_label_of(name), _value(before.get(name)), _value(after.get(name)))
            for name in dict.fromkeys((*before, *after))
            if before.get(name) != after.get(name)
        ]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Details by label, those in `changes` left out, then where the event came from."""
        hidden = set(_CHANGE_KEYS)
        if self.archived:
            hidden |= {"file", "bytes"}
        if self.event.action == "notifications.changed":
            hidden |= {name for name, value in self.event.details.items() if isinstance(value, bool)}
        details = [(name, value) for name, value in self.event.details.items() if name not in hidden]
        facts = [(_label_of(name), _fact(name, value)) for name, value in details]
        origin = {
            _subject_label(self.event): self.event.subject,
            "User agent": self.event.user_agent,
            "Request": self.event.request_id,
            "Request of the link": self.link.request_id if self.link else "",
        }
        files = [("File", str(each.details.get("file"))) for each in reversed(self.archived)]
        issued = [("Link issued", format_datetime(self.link.at))] if self.link else []
        return files + facts + issued + [(label, value) for label, value in origin.items() if value]


def _subject_label(event: AuditEvent) -> str:
    """Return what the subject of an event is. Events of the operator and the service are not about a credential."""
    if event.action == "files.erased":
        return "Snapshot"
    return "Webhook" if event.subject and event.subject.startswith("webhook:") else "Credential"


def event_rows(events: Sequence[AuditEvent], link_lifetime: timedelta) -> list[EventRow]:
    """Return a row for each event, newest first.

    A download and the link that it opened are one row, and so are the files of one archive.
    """
    links: dict[tuple[object, ...], AuditEvent] = {}
    opened: dict[int | None, AuditEvent] = {}
    archives: dict[str, list[AuditEvent]] = {}
    for event in events:
        if event.action == _FETCH and event.details.get("archive") and event.request_id:
            archives.setdefault(event.request_id, []).append(event)
    for event in reversed(events):
        key = (
            event.client_id,
            event.seat_id,
            event.subject,
            event.details.get("file"),
            event.details.get("snapshot_id"),
        )
        if event.action == _LINK and event.result == "ok":
            links[key] = event
        elif event.action == _FETCH and key in links and event.at - links[key].at <= link_lifetime:
            opened[event.event_id] = links.pop(key)
    merged = {link.event_id for link in opened.values()}
    archives = {request_id: archive for request_id, archive in archives.items() if len(archive) > 1}
    merged |= {event.event_id for archive in archives.values() for event in archive[1:]}
    return [
        EventRow(event, opened.get(event.event_id), tuple(archives.get(event.request_id or "", ())))
        for event in events
        if event.event_id not in merged
    ]


def permission_changes(details: Mapping[str, object]) -> str:
    """Describe the differences between `before` and `after` of a changed or removed grant, "" without any."""
    before, after = _settings(details.get("before")), _settings(details.get("after"))
    changes = [
        f"{_label_of(name)} {'on' if after.get(name) else 'off'}"
        for name in ("data_export", "async_rest_api")
        if before.get(name, False) != after.get(name, False)
    ]
    if before.get("roles", []) != after.get("roles", []):
        changes.append(f"roles {_list(before.get('roles'))} → {_list(after.get('roles'))}")
    return ", ".join(changes)


def _settings(found: object) -> Mapping[str, object]:
    return found if isinstance(found, Mapping) else {}


def _list(roles: object) -> str:
    return ", ".join(map(str, roles)) if isinstance(roles, list) and roles else "none"


def _value(value: object) -> str:
    if value is None:
        return EN_DASH
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_label_of(str(name))} {_value(each)}" for name, each in value.items()) or "none"
    return format_number(value) if isinstance(value, int) else str(value)


def _fact(name: str, value: object) -> str:
    return format_size(value) if name == "bytes" and isinstance(value, int) else _value(value)


def _label_of(name: str) -> str:
    return _LABELS.details.get(name) or format_words(name.replace(".", " "))
