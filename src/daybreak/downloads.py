"""Downloads: a link for somebody who may have the file, and the file for whoever holds the link."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import msgspec

from daybreak.access.authorization import (
    TABLE,
    account_fault,
    require,
    session_fault,
    token_fault,
)
from daybreak.access.trail import TrailBuffer, event, event_of
from daybreak.catalogue.file_paths import download_paths, file_names
from daybreak.catalogue.formats import Format, format_named
from daybreak.catalogue.resources import RESOURCE_NAMES, Resource
from daybreak.credentials import signed_link
from daybreak.credentials.keyring import KeyringFile
from daybreak.credentials.signed_link import LinkTarget, Refused
from daybreak.domain.errors import Forbidden, NotFound, RequestError
from daybreak.domain.identity import Caller, Principal, Seat
from daybreak.domain.snapshot import (
    CurrentFile,
    Freshness,
    ManifestEntry,
    Snapshot,
)
from daybreak.ports.state import State, Stores
from daybreak.snapshots.freshness import freshness

LINK_PATH = "/download/v1/links"


@dataclass(frozen=True, slots=True)
class DownloadSettings:
    """`base_url` has no slash at its end; `formats` are those that are written; `publish_at` is
    in UTC."""

    base_url: str
    formats: tuple[str, ...] = ("csv", "json")
    link_lifetime: timedelta = timedelta(minutes=15)
    publish_at: time = time(4, 0)


@dataclass(frozen=True, slots=True)
class DownloadServices:
    """What downloads work with; one per process. `trail` is closed with `await trail.aclose()`."""

    settings: DownloadSettings
    state: State
    keyring: KeyringFile
    trail: TrailBuffer
    clock: Callable[[], datetime]
    random: Callable[[int], bytes]


class NamedFile(msgspec.Struct, frozen=True):
    """A file by its name: one resource in one format."""

    resource: Resource
    format: Format

    @property
    def name(self) -> str:
        """`members.csv.gz`."""
        return self.resource.file_name(self.format)


class IssuedLink(msgspec.Struct, frozen=True):
    """A link and what it opens."""

    url: str
    expires_at: datetime
    named: NamedFile
    file: CurrentFile


class OpenedFile(msgspec.Struct, frozen=True):
    """What a good link opens. `subject` is the credential that it came from, `seat` whose that is."""

    client_id: str
    named: NamedFile
    file: CurrentFile
    subject: str
    seat: Seat | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One account's files of the snapshot that is served, and how fresh they are."""

    snapshot: Snapshot
    freshness: Freshness
    entries: tuple[ManifestEntry, ...]


def file_named(name: str, formats: tuple[str, ...]) -> NamedFile:
    """The file of a link's name, `campaigns.csv.gz`. Raises NotFound(unknown_file)."""
    return _known(file_names(formats).get(name), formats)


def file_at(path: str, formats: tuple[str, ...]) -> NamedFile:
    """The file of a documented download path, such as
    `outbound_message_type_usage.csv.gz/segment-based-subscription`, or of its short name.

    Raises NotFound(unknown_file).
    """
    return _known(download_paths(formats).get(path) or file_names(formats).get(path), formats)


async def issue_link(
    services: DownloadServices,
    principal: Principal,
    client_id: str,
    named: NamedFile,
    caller: Caller,
    *,
    snapshot_id: str | None = None,
) -> IssuedLink:
    """A new link to the file as it is served now, or of an earlier snapshot that is kept. Each
    call gives another one.

    Raises Forbidden (one answer for foreign and unknown accounts), NotFound(snapshot_not_ready)
    with the seconds to the next publication, NotFound(file_gone) for a snapshot not kept.
    """
    now = services.clock()

    async def record(result: str, details: dict[str, object]) -> None:
        details["file"] = named.name
        await services.trail.record(event_of(principal, "link.issued", result, at=now, caller=caller, details=details))

    try:
        require(principal, "download", client_id)
        file = await _file_of(services, client_id, named, snapshot_id, now)
    except (Forbidden, NotFound) as refusal:
        await record(refusal.code, {})
        raise
    await record("ok", {"snapshot_id": file.snapshot_id})
    expires = int((now + services.settings.link_lifetime).timestamp())
    target = LinkTarget(
        client_id=client_id,
        snapshot_id=file.snapshot_id,
        resource=named.resource.name,
        subject=principal.subject,
        expires=expires,
    )
    query = signed_link.sign(target, keyring=services.keyring.current(), random=services.random)
    url = f"{services.settings.base_url}{LINK_PATH}/{client_id}/{file.snapshot_id}/{named.name}?{query}"
    return IssuedLink(url, datetime.fromtimestamp(expires, UTC), named, file)


async def open_link(
    services: DownloadServices,
    *,
    client_id: str,
    snapshot_id: str,
    file_name: str,
    parameters: Sequence[tuple[str, str]],
    caller: Caller,
) -> OpenedFile:
    """The file of a link: signature, then expiry, then whether the credential that it came from
    and its grant still stand. Refusals of a link that was good are put on the trail.

    Raises Forbidden (`invalid_link`, `link_expired`, `link_revoked`), NotFound (`unknown_file`,
    `file_gone`).
    """
    now = services.clock()
    named = file_named(file_name, services.settings.formats)
    target = _signed_target(
        signed_link.verify(
            client_id=client_id,
            snapshot_id=snapshot_id,
            resource=named.resource.name,
            parameters=parameters,
            keyring=services.keyring.current(),
            now_seconds=now.timestamp(),
        )
    )

    def look(stores: Stores) -> tuple[Seat | None, bool, CurrentFile | None]:
        seat, stands = _standing(stores, target, now)
        if not stands:
            return seat, False, None
        return seat, True, stores.snapshots.file(snapshot_id, client_id, named.resource.name, named.format.name)

    seat, stands, file = await services.state.aread(look)
    if file is not None:
        return OpenedFile(client_id, named, file, target.subject, seat)
    refusal: RequestError
    if not stands:
        refusal = Forbidden(
            "The session or token that this link came from has ended, or its access to the account has.",
            code="link_revoked",
        )
    else:
        refusal = NotFound("This snapshot is no longer kept. Ask for the file again.", code="file_gone")
    await services.trail.record(
        event(
            "file.fetched",
            refusal.code,
            at=now,
            caller=caller,
            seat=seat,
            client_id=client_id,
            subject=target.subject,
            details={"file": named.name, "snapshot_id": snapshot_id},
        )
    )
    raise refusal


async def record_fetch(services: DownloadServices, opened: OpenedFile, caller: Caller) -> None:
    """Puts on the trail that octets of a file go out; to be called before they do. Raises Unavailable."""
    file = opened.file
    await services.trail.record(
        event(
            "file.fetched",
            "ok",
            at=services.clock(),
            caller=caller,
            seat=opened.seat,
            client_id=opened.client_id,
            subject=opened.subject,
            details={"file": opened.named.name, "snapshot_id": file.snapshot_id, "bytes": file.stored.bytes},
        )
    )


async def manifest(services: DownloadServices, principal: Principal, client_id: str) -> Manifest:
    """Every file of an account in the snapshot that is served, and how fresh it is.

    Raises Forbidden, NotFound(snapshot_not_ready).
    """
    require(principal, "see_files", client_id)
    now = services.clock()

    def look(stores: Stores) -> tuple[Freshness, list[ManifestEntry]]:
        known = freshness(stores.snapshots, now, services.settings.publish_at)
        if known.snapshot is None:
            return known, []
        return known, stores.snapshots.manifest(known.snapshot.snapshot_id, client_id)

    fresh, entries = await services.state.aread(look)
    if fresh.snapshot is None or not entries:
        raise await _not_ready(services, client_id, now)
    return Manifest(fresh.snapshot, fresh, tuple(entries))


async def _file_of(
    services: DownloadServices, client_id: str, named: NamedFile, snapshot_id: str | None, now: datetime
) -> CurrentFile:
    file = await services.state.aread(
        lambda stores: stores.snapshots.file(snapshot_id, client_id, named.resource.name, named.format.name)
    )
    if file is not None:
        return file
    if snapshot_id is not None:
        raise NotFound("This snapshot is no longer kept.", code="file_gone")
    raise await _not_ready(services, client_id, now)


async def _not_ready(services: DownloadServices, client_id: str, now: datetime) -> NotFound:
    def look(stores: Stores) -> tuple[Freshness, bool]:
        known = freshness(stores.snapshots, now, services.settings.publish_at)
        snapshot = known.snapshot
        unknown = snapshot is not None and not stores.snapshots.leader_known(snapshot.snapshot_id, client_id)
        return known, unknown

    fresh, unknown = await services.state.aread(look)
    seconds = max(1, math.ceil((fresh.next_expected_at - now).total_seconds()))
    if unknown:
        detail = "The platform's data does not know this account, so there are no files of it."
    elif fresh.snapshot is None:
        detail = "There is no snapshot yet." if fresh.reason is None else fresh.reason
    else:
        detail = "The snapshot that is served does not hold this file."
    return NotFound(detail, code="snapshot_not_ready", retry_after_seconds=seconds)


def _signed_target(judged: LinkTarget | Refused) -> LinkTarget:
    if isinstance(judged, LinkTarget):
        return judged
    if judged.reason == "expired":
        raise Forbidden("This link has expired. Ask for the file again to get another one.", code="link_expired")
    raise Forbidden("This link is not good.", code="invalid_link")


def _standing(stores: Stores, target: LinkTarget, now: datetime) -> tuple[Seat | None, bool]:
    """Whether the credential of a link still opens the account, and whose it is."""
    kind, _, credential_id = target.subject.partition(":")
    if kind == "session":
        session = stores.sessions.standing(credential_id, target.client_id)
        if session is None:
            return None, False
        fault = session_fault(session, now) or account_fault(
            session.account, session.grant, session.session, TABLE["download"]
        )
        return session.seat, fault is None
    token = stores.api_tokens.standing_by_id(credential_id)
    if token is None:
        return None, False
    return token.seat, token_fault(token, now) is None and token.token.client_id == target.client_id


def _known(found: tuple[Resource, Format] | None, formats: tuple[str, ...]) -> NamedFile:
    if found is None:
        endings = " or ".join(format_named(name).ending for name in formats)
        raise NotFound(
            f"There is no such file. There are {', '.join(RESOURCE_NAMES)}, each with {endings}.", code="unknown_file"
        )
    return NamedFile(*found)
