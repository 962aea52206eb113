"""Verification of what a service publishes for an account: statement, manifest and deltas."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from daybreak_client.errors import Expired, NotProved, Unsigned, WrongUse
from daybreak_client.proof.memory import Memory, Seen
from daybreak_client.proof.signature import minute
from daybreak_client.proof.statement import SignedDelta, Statement, parse_statement
from daybreak_client.proof.trust import Trust, parse_revoked, parse_trust
from daybreak_client.published import Feed, FeedEntry, PublishedSnapshot, ResourceDelta, SnapshotChanged

Get = Callable[[str], bytes | None]
"""Returns the content of a path of the service, None if it does not exist."""

TRUST_PATH = "/download/v1/trust"
_FILES = "/download/v1/files"
_MAX_ATTEMPTS = 4
_MAX_CLOCK_DIFFERENCE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement and its signature, byte for byte. `expired` is the reason why it is no longer valid, else empty."""

    statement: Statement
    content: bytes
    signature: bytes
    expired: str = ""

    def check_fresh(self) -> None:
        """Check that the statement is still valid. Raises Expired."""
        if self.expired:
            raise Expired(self.expired)


@dataclass(slots=True)
class Verifier:
    """Verification for one profile.

    `address` is the URL of the service, empty for one that is not contacted. `at`: the files are those of an archive,
    and were current at that time. `pinned` is the trust file of the user. `require_signed` refuses unsigned files.
    `announce` receives notes.
    """

    memory: Memory
    address: str = ""
    at: datetime | None = None
    pinned: Trust | None = None
    require_signed: bool = False
    announce: Callable[[str], None] = print
    _announced: set[str] = field(default_factory=set)

    def applies(self) -> bool:
        """Return whether the service is known, or must be."""
        return self.require_signed or self.pinned is not None or self.memory.of_address(self.address) is not None

    def refresh(self, get: Get) -> Seen:
        """Return the trust of the service at `address`, after a request for a later version. The first is announced.

        Raises NotProved, Unsigned for a service without one.
        """
        content = get(TRUST_PATH)
        if content is None:
            if self.pinned is None:
                raise Unsigned(f"{self.address} has no trust file, so it does not sign its files.")
            return self.pinned_trust(self.pinned)
        served = parse_trust(content)
        revoked = parse_revoked(get(f"{TRUST_PATH}/revoked") or b"")
        known = self.memory.of_address(self.address)
        if self.pinned is not None:
            known = self.pinned_trust(self.pinned)
        if known is not None and served.service != known.trust.service:
            raise NotProved(
                f"{self.address} returned the trust file of {served.service}, not that of {known.trust.service}."
            )

        def change(seen: Seen | None) -> Seen:
            if seen is None:
                digest = hashlib.sha256(content).hexdigest()
                self._note(
                    f"First use of {served.service}: its trust file, version {served.version}, is now trusted. Compare "
                    f"its SHA-256 over another channel: {digest}. --trust FILE sets it in advance."
                )
                seen = Seen(served)
            elif seen.addresses and self.address not in seen.addresses:
                # A trust file is public, and another service that returns it could revoke its keys.
                raise NotProved(
                    f"{self.address} returned the trust file of {served.service}, which this profile knows from "
                    f"{min(seen.addresses)}. If both are that service, use --trust FILE once."
                )
            signature = (get(f"{TRUST_PATH}.sig") or b"") if served.version > seen.trust.version else seen.signature
            if served.version == seen.trust.version and served.text != seen.trust.text:
                raise NotProved(
                    f"The service returned version {served.version} of the trust file of {served.service} with other "
                    "content than before. Ask its operator. If the service was reinstalled, remove "
                    f"{self.memory.service_folder(served.service)}."
                )
            seen.trust.check_successor(served, signature)
            if served.version > seen.trust.version:
                self._note(
                    f"{served.service} has a new trust file, version {served.version}, signed by its recovery key."
                )
            return Seen(served, seen.addresses | {self.address}, seen.revoked | revoked, signature)

        return self._for_archive(self.memory.update_service(served.service, change))

    def pinned_trust(self, trust: Trust) -> Seen:
        """Return what was seen of the service of a trust file that the user has. It replaces the one that was seen,
        except for a later one that its recovery key has signed.

        Raises NotProved if another later one was seen.
        """

        def change(seen: Seen | None) -> Seen:
            found = seen or Seen(trust)
            if self.address:
                found = replace(found, addresses=found.addresses | {self.address})
            if trust == found.trust:
                return found
            if trust.version >= found.trust.version:
                return replace(found, trust=trust, signature=b"")
            if self.at is None and not trust.has_signed(found.trust, found.signature):
                raise NotProved(
                    f"The trust file is version {trust.version} of {trust.service}. This profile has seen version "
                    f"{found.trust.version}. Use that one, or remove {self.memory.service_folder(trust.service)}."
                )
            return found

        return self._for_archive(self.memory.update_service(trust.service, change))

    def _for_archive(self, seen: Seen) -> Seen:
        """Return what was seen, for an archive with the trust file of its time if the user has that."""
        return seen if self.at is None or self.pinned is None else replace(seen, trust=self.pinned)

    def stored(self, service: str) -> Seen:
        """Return the trust of the service at `address`, else of this `service`, without a request.

        Raises WrongUse for an unknown one.
        """
        if self.pinned is not None:
            return self.pinned_trust(self.pinned)
        found = self.memory.of_address(self.address) or self.memory.of_service(service)
        if found is None:
            raise WrongUse(
                f"The trust file of {service} is unknown. Use --trust FILE, or run the command without --offline once."
            )
        return found

    def verify(self, seen: Seen, content: bytes, signature: bytes, client_id: str) -> SignedStatement:
        """Verify a statement for an account and remember it. Raises NotProved; one that has expired is returned."""
        certificate = seen.trust.signed_statement(content, signature, client_id)
        statement = parse_statement(content, hashlib.sha256(content).hexdigest())
        if statement.service != seen.trust.service:
            raise NotProved(f"The statement is one of {statement.service}, not of {seen.trust.service}.")
        if statement.client_id != client_id:
            raise NotProved(f"The statement is for account {statement.client_id}, not for {client_id}.")
        at = self.at or datetime.now(UTC)
        if (statement.signed_at - at).total_seconds() > _MAX_CLOCK_DIFFERENCE_SECONDS:
            raise NotProved(
                f"The statement was signed at {minute(statement.signed_at)}, later than {minute(at)}. Check the "
                "clock, or the time of --at."
            )
        expired = ""
        try:
            certificate.check(at, seen.revoked)
            if at >= statement.expires_at:
                raise Expired(f"The statement expired at {minute(statement.expires_at)}.")
        except Expired as fault:
            expired = f"{fault.message} The files are late or an old copy, or the clock is fast."
        self.memory.check(statement, archived=self.at is not None or bool(expired))
        return SignedStatement(statement, content, signature, expired)

    def current(self, get: Get, client_id: str) -> SignedStatement | None:
        """Return the verified current statement of an account, None if its files are unsigned and may be.

        Raises NotProved, Unsigned. A statement that has expired is returned.
        """
        try:
            seen = self.refresh(get)
        except Unsigned as fault:
            self._accept_unsigned(fault.message, self.memory.of_address(self.address), client_id)
            return None
        path, before = f"{_FILES}/{client_id}/statement.json", (b"", b"")
        for _ in range(_MAX_ATTEMPTS):
            content, signature = get(path), get(f"{path}.sig")
            if not content or not signature:
                self._accept_unsigned(f"The files of {client_id} have no signed statement.", seen, client_id)
                return None
            try:
                return self.verify(seen, content, signature, client_id)
            except NotProved:
                # A publication may have replaced the statement before its signature was requested.
                if before == (content, signature):
                    raise
                before = content, signature
        raise NotProved("The service returned another statement on every request. Try again later.")

    def _accept_unsigned(self, reason: str, seen: Seen | None, client_id: str) -> None:
        """Raise Unsigned if signed files are required, or were seen before. Otherwise announce the reason."""
        if self.require_signed:
            raise Unsigned(f"{reason} Ask the operator of the service.")
        if seen is not None and self.memory.of_account(seen.trust.service, client_id) is not None:
            raise Unsigned(
                f"{reason} This profile has seen signed files of this account. Ask the operator of the service. If it "
                f"no longer signs files, remove {self.memory.service_folder(seen.trust.service)}."
            )
        self._note(f"{reason} They are not verified.")

    def check_seen_fresh(self, client_id: str) -> None:
        """Check that the latest statement of an account is still valid, if the service has no news. Raises Expired."""
        seen = self.memory.of_address(self.address)
        account = None if seen is None else self.memory.of_account(seen.trust.service, client_id)
        if account is not None and datetime.now(UTC) >= account.expires_at:
            raise Expired(
                f"The statement expired at {minute(account.expires_at)}, and the service has no newer files. They are "
                "late, or the answer is an old copy."
            )

    def _note(self, text: str) -> None:
        if text not in self._announced:
            self._announced.add(text)
            self.announce(text)


def check_manifest(published: PublishedSnapshot, statement: Statement) -> None:
    """Check that a manifest lists the files of a statement. Raises NotProved, SnapshotChanged."""
    if published.version != statement.edition.version:
        raise SnapshotChanged
    for file in published.files:
        signed = statement.files.get(file.name)
        if signed is None:
            raise NotProved(f"{file.name} is not in the statement of {statement.edition}.")
        listed = (file.sha256, file.size_bytes, file.rows, file.content_sha256)
        if listed != (signed.sha256, signed.size_bytes, signed.rows, signed.content_sha256):
            raise NotProved(f"{file.name}: the service lists another file than the statement of {statement.edition}.")
    missing = statement.files.keys() - {file.name for file in published.files}
    if missing:
        raise NotProved(f"{min(missing)} is in the statement of {statement.edition}, but the service does not list it.")
    if published.as_of != statement.as_of:
        raise NotProved("The service states another instant of the data than the statement.")


def proved_feed(feed: Feed, current: Statement, get: Get) -> Feed:
    """Return a feed with the latest entries whose deltas are in signed statements. Raises NotProved, SnapshotChanged.

    Each statement contains the digest of the one before. A sync loads full files in place of the other entries.
    """
    if feed.version != current.edition.version:
        raise SnapshotChanged
    statements = _chain(current, get)
    entries: list[FeedEntry] = []
    for entry in reversed(feed.entries):
        statement = next(statements, None)
        if statement is None or statement.edition.version != entry.version or feed.chain_id != statement.chain_id:
            break
        for resource, delta in entry.resources.items():
            if delta.state == "changed":
                _check_delta(resource, entry, delta, statement.deltas.get(resource))
        entries.append(entry)
    return replace(feed, entries=tuple(reversed(entries)))


def _chain(statement: Statement, get: Get) -> Iterator[Statement]:
    """Yield a statement and those before it, as long as the service has them. Raises NotProved."""
    yield statement
    while statement.previous is not None:
        edition = statement.previous
        path = f"{_FILES}/{statement.client_id}/statements/{edition.version}.{edition.revision}.json"
        content = get(path)
        if content is None:
            return
        digest = hashlib.sha256(content).hexdigest()
        if digest != statement.previous_sha256:
            raise NotProved(f"The statement of {edition} is not the one that {statement.edition} follows.")
        statement = parse_statement(content, digest)
        yield statement


def _check_delta(resource: str, entry: FeedEntry, delta: ResourceDelta, signed: SignedDelta | None) -> None:
    listed = (
        delta.content_sha256_before, delta.content_sha256_after, delta.deleted, delta.inserted,
        dict(delta.constants or {}), entry.from_version,
    )  # fmt: skip
    if signed is None or listed != (
        signed.content_sha256, signed.to_content_sha256, signed.deleted, signed.inserted,
        dict(signed.constants), signed.start.version,
    ) or (delta.file is not None and delta.file.sha256 != signed.sha256):  # fmt: skip
        raise NotProved(f"{resource}: the service lists another delta than the statement of version {entry.version}.")
