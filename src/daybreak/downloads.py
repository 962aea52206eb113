"""Downloads: links for principals that may have a file, and files for valid links."""

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import msgspec

from daybreak.access.authorization import REQUIREMENTS, account_fault, require_in_context, session_fault, token_fault
from daybreak.access.services import Services
from daybreak.catalogue.download_paths import (
    SavedName,
    delta_names,
    download_paths,
    file_names,
    link_names,
    parse_saved_name,
)
from daybreak.catalogue.formats import Format, format_named
from daybreak.catalogue.resources import RESOURCE_NAMES, Resource
from daybreak.credentials import signed_link
from daybreak.credentials.signed_link import (
    LINK_FILE_NAME,
    LINK_PART,
    InvalidLink,
    LinkRequest,
    LinkTarget,
)
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Forbidden, InvalidRequest, NotFound, RequestError
from daybreak.domain.identity import Caller, Principal, Seat, ServeGzipAs
from daybreak.domain.snapshot import CurrentFile, Freshness, ManifestEntry, Snapshot
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores

LINK_PATH = "/download/v1/links"


class NamedFile(msgspec.Struct, frozen=True):
    """One resource in one format. A delta format needs the `version` of the publication when a link is requested."""

    resource: Resource
    format: Format
    version: int | None = None

    @property
    def subject(self) -> str:
        """What a link to the file signs: the resource without its format, so that the format can be replaced."""
        return f"{self.resource.name}.delta" if self.format.delta_of else self.resource.name

    @property
    def name(self) -> str:
        """The file name, such as `members.csv.gz`."""
        return self.resource.file_name(self.format)


class IssuedLink(msgspec.Struct, frozen=True):
    """A signed link and its file."""

    url: str
    expires_at: datetime
    named: NamedFile
    file: CurrentFile


class OpenedFile(msgspec.Struct, frozen=True):
    """A file that a credential (`subject`) may have, such as that which issued a link, and the seat of the credential.

    `serve_gzip_as` is set if the credential is an API token that decides how its gzip files are sent. `door` is the
    protocol in the audit trail, empty for links. `saved_name` is the name under which browsers save the file.
    """

    client_id: str
    named: NamedFile
    file: CurrentFile
    subject: str
    seat: Seat | None
    serve_gzip_as: ServeGzipAs | None
    door: str = ""
    saved_name: SavedName | None = None

    @property
    def details(self) -> dict[str, object]:
        """The file in the audit trail."""
        file, door = self.file, {"door": self.door} if self.door else {}
        return {"file": self.named.name, "snapshot_id": file.snapshot_id, "bytes": file.content.bytes, **door}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One account's files of the current snapshot, and its freshness."""

    snapshot: Snapshot
    freshness: Freshness
    entries: tuple[ManifestEntry, ...]


def file_named(name: str, formats: tuple[str, ...]) -> NamedFile:
    """Return the file with a name such as `campaigns.csv.gz` or `campaigns.delta.csv.gz`. Raises
    NotFound(unknown_file).
    """
    return _known(link_names(formats).get(name), formats)


def delta_named(name: str, version: int) -> NamedFile:
    """Return the delta with a name such as `campaigns.delta.csv.gz`. Raises NotFound(unknown_file)."""
    found = delta_names().get(name)
    if found is None:
        raise NotFound(f"Unknown file. Use a name such as {next(iter(delta_names()))}.", code="unknown_file")
    return NamedFile(*found, version)


def file_at(path: str, formats: tuple[str, ...]) -> NamedFile:
    """Return the file at a documented download path, or with a short name.

    An example of a path is `outbound_message_type_usage.csv.gz/segment-based-subscription`.
    Raises NotFound(unknown_file).
    """
    return _known(download_paths(formats).get(path) or file_names(formats).get(path), formats)


async def issue_link(
    services: Services,
    principal: Principal,
    client_id: str,
    named: NamedFile,
    caller: Caller,
    *,
    snapshot_id: str | None = None,
) -> IssuedLink:
    """Issue a link to a file of the current snapshot, or of an earlier one that is kept, or to a delta. No two links
    are equal.

    Raises RateLimited, Forbidden (the same for foreign and unknown accounts, `wrong_context` for another account of the
    session's seat), NotFound: `snapshot_not_ready` with the seconds to the next publication, `file_gone` for a snapshot
    that is not kept, `no_delta`.
    """
    async with recorded_request(services, principal, caller, "link.issued", {"file": named.name}) as details:
        await require_in_context(services.state, principal, "download", client_id)
        file = await _find_file(services, client_id, named, snapshot_id)
        details["snapshot_id"] = file.snapshot_id
    url, expires_at = sign_link(services, principal, file.snapshot_id, named)
    return IssuedLink(url, expires_at, named, file)


@asynccontextmanager
async def recorded_request(
    services: Services, principal: Principal, caller: Caller, action: str, details: dict[str, object]
) -> AsyncIterator[dict[str, object]]:
    """Count a request as one link, and record it in the audit trail: `details`, which the body may add to, and the
    refusal that the body raises.

    Raises RateLimited.
    """
    origin = EventOrigin.of(principal, services.clock(), caller)
    # Refused requests count too: each of them is recorded in the audit trail.
    await services.link_rate.count("link", principal.subject, lambda: origin.event(action, "rate_limited", details))
    try:
        yield details
    except (Forbidden, InvalidRequest, NotFound) as refusal:
        await services.audit_buffer.record(origin.event(action, refusal.code, details))
        raise
    await services.audit_buffer.record(origin.event(action, "ok", details))


def sign_link(
    services: Services, principal: Principal, snapshot_id: str, named: NamedFile, part: int | None = None
) -> tuple[str, datetime]:
    """Return a new link to a file of the principal's account, or to a part of it from 1, and its expiry. Nothing is
    checked or recorded.
    """
    client_id = principal.account.client_id
    expires = int((services.clock() + services.settings.access.link_lifetime).timestamp())
    target = LinkTarget(
        client_id=client_id,
        snapshot_id=snapshot_id,
        resource=named.subject,
        subject=principal.subject,
        expires=expires,
    )
    query = signed_link.sign(target, keyring=services.keyring.current(), random=services.random)
    url = f"{services.settings.base_url}{LINK_PATH}/{client_id}/{snapshot_id}/{named.name}?{query}"
    url += "" if part is None else f"&{LINK_PART}={part}"
    # Tools that infer the compression from the end of an address, such as pandas, need no option.
    url += f"&{LINK_FILE_NAME}={named.name}"
    return url, datetime.fromtimestamp(expires, UTC)


async def open_link(services: Services, request: LinkRequest, caller: Caller) -> OpenedFile:
    """Return the file of a link after checking its signature, its expiry, and that its credential is still valid.

    Refusals of correctly signed links are recorded in the audit trail. Raises Forbidden (`invalid_link`,
    `link_expired`, `link_revoked`, `address_not_allowed`), NotFound (`unknown_file`, `file_gone`, `no_delta`),
    RateLimited.
    """
    now = services.clock()
    named = file_named(request.file_name, services.settings.snapshot.formats)
    target = _verified_target(services, request, named, now)
    # The expiry has whole seconds.
    issued_before = datetime.fromtimestamp(target.expires + 1, UTC) - services.settings.access.link_lifetime

    def read(stores: Stores) -> tuple[_Issuer, CurrentFile | RequestError]:
        issuer = _issuer_of(services, stores, target, now, caller)
        if issuer.fault is not None:
            return issuer, issuer.fault
        file = _stored_file(stores, request.snapshot_id, request.client_id, named)
        if file is not None and file.replaced_at is not None and issued_before <= file.replaced_at:
            return issuer, Forbidden("This file has been replaced. Request the file again.", code="link_revoked")
        if file is None and named.format.delta_of:
            return issuer, NotFound("This delta has been withdrawn. Read the feed again.", code="no_delta")
        return issuer, file or NotFound("This snapshot is no longer kept. Request the file again.", code="file_gone")

    issuer, found = await services.state.aread(read)
    if await services.apply_revocations(issuer.revoked_keys):
        _verified_target(services, request, named, now)
    if isinstance(found, CurrentFile):
        found = _requested_part(found, request)
        saved = parse_saved_name(dict(request.parameters).get(LINK_FILE_NAME, ""))
        credential = target.subject, issuer.seat, issuer.serve_gzip_as
        return OpenedFile(request.client_id, named, found, *credential, saved_name=saved)
    origin = EventOrigin(now, caller, issuer.seat, request.client_id, target.subject)
    details = {"file": named.name, "snapshot_id": request.snapshot_id}
    await record_download(services, origin, "file.fetched", found.code, details)
    raise found


async def record_download(
    services: Services, origin: EventOrigin, action: str, result: str, details: Mapping[str, object], *, sent: int = 0
) -> None:
    """Count a download and its bytes, or its refusal, and record it. Raises RateLimited, Unavailable."""
    await count_bytes(services, origin, action, details, sent)
    await services.link_rate.count(
        "download", origin.subject or "", lambda: origin.event(action, "rate_limited", details)
    )
    await services.audit_buffer.record(origin.event(action, result, details))


async def count_bytes(
    services: Services, origin: EventOrigin, action: str, details: Mapping[str, object], sent_bytes: int
) -> None:
    """Count the bytes of files that a response sends. Raises RateLimited, Unavailable."""
    if not sent_bytes:
        return
    refusal = partial(origin.event, action, "rate_limited", details)
    await services.byte_rate.count("byte", origin.subject or "", refusal, amount=sent_bytes)


async def manifest(services: Services, principal: Principal, client_id: str) -> Manifest:
    """Return every file of an account in the current snapshot, and its freshness.

    Raises Forbidden, NotFound(snapshot_not_ready).
    """
    await require_in_context(services.state, principal, "see_files", client_id)
    now = services.clock()

    def read(stores: Stores) -> tuple[Freshness, list[ManifestEntry]]:
        fresh = freshness(stores.snapshots, now, services.settings.snapshot.publish_at)
        if fresh.snapshot is None:
            return fresh, []
        return fresh, stores.snapshots.manifest(fresh.snapshot.snapshot_id, client_id)

    fresh, entries = await services.state.aread(read)
    if fresh.snapshot is None or not entries:
        raise await not_ready(services, client_id)
    return Manifest(fresh.snapshot, fresh, tuple(entries))


async def _find_file(services: Services, client_id: str, named: NamedFile, snapshot_id: str | None) -> CurrentFile:
    file = await services.state.aread(
        lambda stores: _stored_file(stores, named.version if named.format.delta_of else snapshot_id, client_id, named)
    )
    if file is not None:
        return file
    if named.format.delta_of:
        raise NotFound(
            f"Version {named.version} has no delta of {named.resource.name} in the current chain. Read the feed again.",
            code="no_delta",
        )
    if snapshot_id is not None:
        raise NotFound("This snapshot is no longer kept.", code="file_gone")
    raise await not_ready(services, client_id)


def _stored_file(stores: Stores, publication: str | int | None, client_id: str, named: NamedFile) -> CurrentFile | None:
    """Return a file of a publication: a snapshot id, None for the current one, or for deltas also a version."""
    resource, format = named.resource.name, named.format
    if format.delta_of:
        return None if publication is None else stores.deltas.file(publication, client_id, resource, format.delta_of)
    assert not isinstance(publication, int)
    return stores.snapshots.file(publication, client_id, resource, format.name)


async def not_ready(services: Services, client_id: str) -> NotFound:
    """Return the error for an account without files, with the reason and the seconds to the next publication."""
    now = services.clock()

    def read(stores: Stores) -> tuple[Freshness, bool]:
        fresh = freshness(stores.snapshots, now, services.settings.snapshot.publish_at)
        snapshot = fresh.snapshot
        unknown = snapshot is not None and not stores.snapshots.leader_known(snapshot.snapshot_id, client_id)
        return fresh, unknown

    fresh, unknown = await services.state.aread(read)
    seconds = max(1, math.ceil((fresh.next_expected_at - now).total_seconds()))
    if unknown:
        detail = "The platform's data has no such account, so there are no files."
    elif fresh.snapshot is None:
        detail = "There is no snapshot yet." if fresh.reason is None else fresh.reason
    else:
        detail = "The current snapshot does not contain this file."
    return NotFound(detail, code="snapshot_not_ready", retry_after_seconds=seconds)


def _verified_target(services: Services, request: LinkRequest, named: NamedFile, now: datetime) -> LinkTarget:
    """Return the signed target of a link. Raises Forbidden."""
    texts = [value for name, value in request.parameters if name == LINK_FILE_NAME]
    names = [saved.file_name if (saved := parse_saved_name(text)) is not None else text for text in texts]
    known = link_names(services.settings.snapshot.formats)
    if len(names) > 1 or any(name not in known or NamedFile(*known[name]).subject != named.subject for name in names):
        raise Forbidden("Invalid link.", code="invalid_link")
    verified = signed_link.verify(
        request, named.subject, keyring=services.keyring.current(), now_seconds=now.timestamp()
    )
    if isinstance(verified, InvalidLink):
        if verified.reason == "expired":
            raise Forbidden("This link has expired. Request the file again for a new link.", code="link_expired")
        raise Forbidden("Invalid link.", code="invalid_link")
    return verified


def _requested_part(file: CurrentFile, request: LinkRequest) -> CurrentFile:
    """Return the part of a file that a link names. Raises Forbidden."""
    numbers = [value for name, value in request.parameters if name == LINK_PART]
    parts = {str(number): part for number, part in enumerate(file.stored.parts, 1)}
    if len(numbers) > 1 or any(number not in parts for number in numbers):
        raise Forbidden("Invalid link.", code="invalid_link")
    return file.with_part(parts[numbers[0]]) if numbers else file


class _Issuer(msgspec.Struct, frozen=True):
    """The credential that issued a link: why the link is refused (None if it is not), its seat and its choice."""

    seat: Seat | None
    fault: RequestError | None
    revoked_keys: int
    serve_gzip_as: ServeGzipAs | None = None


def _issuer_of(services: Services, stores: Stores, target: LinkTarget, now: datetime, caller: Caller) -> _Issuer:
    kind, _, credential_id = target.subject.partition(":")
    if kind == "session":
        session = stores.sessions.resolve(credential_id, target.client_id)
        if session is None:
            return _Issuer(None, _revoked(), services.keyring.revoked_count)
        settings = services.settings.access
        fault = session_fault(session, now, dashboard_idle=settings.dashboard_idle) or account_fault(
            session.account,
            session.grant,
            session.session,
            settings.require_second_factor,
            REQUIREMENTS["download"],
        )
        return _Issuer(session.seat, None if fault is None else _revoked(), session.revoked_keys)
    resolved = stores.api_tokens.resolve_by_id(credential_id)
    if resolved is None:
        return _Issuer(None, _revoked(), services.keyring.revoked_count)
    fault = token_fault(resolved, now, caller.address)
    if resolved.token.client_id != target.client_id or (fault is not None and fault.code != "address_not_allowed"):
        fault = _revoked()
    return _Issuer(resolved.seat, fault, resolved.revoked_keys, resolved.token.serve_gzip_as)


def _revoked() -> Forbidden:
    return Forbidden(
        "The session or token that issued this link has ended or lost access to the account. Request the file again.",
        code="link_revoked",
    )


def _known(found: tuple[Resource, Format] | None, formats: tuple[str, ...]) -> NamedFile:
    if found is None:
        endings = " or ".join(format_named(name).ending for name in formats)
        raise NotFound(f"Unknown file. Use one of {', '.join(RESOURCE_NAMES)} with {endings}.", code="unknown_file")
    return NamedFile(*found)
