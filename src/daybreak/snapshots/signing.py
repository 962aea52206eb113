"""Signs the statements of a snapshot before its publication.

Each signing has a new key, which is only in memory and certified by the CA of the service. The statements are packs
next to the files, and one row of the database names them. A statement contains the version that the publication will
have: the publication checks it, and the statements are signed again if another publication came between.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import msgspec
import structlog

from daybreak.catalogue.formats import STATEMENTS
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.credentials.signing_folder import RECOVERY_FILE, load_ca, load_recovery, recovery_public
from daybreak.credentials.ssh_signature import CertificateAuthority, SigningKey
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.errors import Conflict, OperatorError, StatementsOutdated
from daybreak.domain.signing import TRUST_NAMESPACE, Edition, SignedSnapshot, StatementPack, Trust
from daybreak.domain.snapshot import Snapshot
from daybreak.export.bounded_map import bounded_map
from daybreak.filestore.file_store import FileStore
from daybreak.proof.statement import (
    UNACCOUNTED,
    AccountFacts,
    Facts,
    ListedFiles,
    listed,
    reconciled,
    statement,
    statement_template,
)
from daybreak.proof.statement_pack import ACCOUNTS_PER_PACK, encode_pack, sign_statement
from daybreak.settings import Settings
from daybreak.snapshots.schedule import next_publication, publication_of
from daybreak.snapshots.signed_statements import StoredStatements
from daybreak.state.snapshots import chain_of
from daybreak.state.stores import State, Stores

LATE_AFTER_EXPECTED = timedelta(hours=6)
"""How long statements are valid after the next publication was expected."""
_CLOCK_DIFFERENCE = timedelta(minutes=5)
_log = structlog.get_logger("daybreak.snapshots")

Completeness = Callable[[str], msgspec.Raw]
"""Returns the section about the rows of an account."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the publication of a snapshot will be if it is the next one. `continues`: deltas can be applied."""

    snapshot: Snapshot
    version: int
    chain_id: str
    continues: bool
    epoch: int
    previous: Snapshot | None
    stored: SignedSnapshot | None

    @property
    def may_have_erasures(self) -> bool:
        """Whether files may have fewer rows than the stored statements say."""
        return self.stored is not None and self.stored.epoch != self.epoch


@dataclass(frozen=True, slots=True)
class Authority:
    """The CA of the service, and the name under which it signs."""

    ca: CertificateAuthority
    service: str

    def key(self, version: int, signed_at: datetime, expires_at: datetime) -> SigningKey:
        """Return a new certified key."""
        return self.ca.certify(self.service, version, signed_at - _CLOCK_DIFFERENCE, expires_at)


def authority_of(state: State, settings: Settings, now: datetime) -> Authority | None:
    """Return the CA, None for a service that signs nothing. Creates the first trust file.

    Raises OperatorError if the service has a trust file, but not its CA.
    """
    trust = state.read(lambda stores: stores.signatures.trust())
    ca = listed_ca(settings, trust)
    if ca is None:
        return None
    if trust is None:
        first = _first_trust(settings, ca)
        with suppress(Conflict):
            state.write(lambda stores: stores.signatures.add_trust(first, now))
        trust = state.read(lambda stores: stores.signatures.trust()) or first
        listed_ca(settings, trust)
    return Authority(ca, trust.service)


def listed_ca(settings: Settings, trust: Trust | None) -> CertificateAuthority | None:
    """Return the CA, None for a service without one that has not signed anything.

    Raises OperatorError if the service has a trust file that does not list its CA.
    """
    folder = settings.signing.folder
    ca = load_ca(folder)
    if trust is None or (ca is not None and ca.public in trust.cas):
        return ca
    if ca is None:
        raise OperatorError(
            f"{folder} has no CA, but this service signs its files. Restore the folder from a backup, or run "
            "`daybreakd trust rotate` with the recovery key. Nodes without a builder do not need it."
        )
    raise OperatorError(
        f"Version {trust.version} of the trust file does not list the CA in {folder}. If another folder belongs to "
        "this service, restore it. If the state database was restored, run `daybreakd trust rotate` with the recovery "
        "key, until the version is higher than the one that consumers have seen."
    )


def sign_trust(trust: Trust, recovery: SigningKey) -> Trust:
    """Return the trust file with the signature of the recovery key."""
    signature = recovery.sign(trust.text().encode(), TRUST_NAMESPACE).decode()
    return Trust(trust.service, trust.version, trust.cas, trust.recovery, signature)


def _first_trust(settings: Settings, ca: CertificateAuthority) -> Trust:
    folder = settings.signing.folder
    service = urlsplit(settings.base_url).hostname or "localhost"
    trust = Trust(service, 1, (ca.public,), recovery_public(folder))
    recovery = folder / RECOVERY_FILE
    return sign_trust(trust, load_recovery(recovery)) if recovery.exists() else trust


def sign_for_publication(
    state: State,
    store: FileStore,
    settings: Settings,
    snapshot_id: str,
    now: datetime,
    *,
    completeness: Completeness | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Sign the statements of a snapshot, unless those that it has are those of its publication at `now`.

    `completeness` are the sections about rows; without it, those of the earlier statements. `check` is called between
    packs, and may raise. Raises OperatorError, FileStoreError, Unavailable.
    """
    plan = state.read(lambda stores: _plan(stores, snapshot_id))
    if plan is None:
        return
    expires_at = _expiry(plan.snapshot, settings, now)
    stored, wanted = plan.stored, (plan.version, plan.chain_id, plan.epoch, expires_at)
    found = None if stored is None else (stored.version, stored.chain_id, stored.epoch, stored.expires_at)
    if found == wanted and completeness is None:
        return
    authority = authority_of(state, settings, now)
    if authority is None:
        return
    if completeness is None:
        completeness = _stored_completeness(store, stored)
    signing = _Signing(state, store, settings, plan, completeness)
    key = authority.key(plan.version, now, expires_at)
    facts = Facts(authority.service, plan.version, plan.snapshot.as_of, now, expires_at)
    name = uuid.uuid4().hex[:12]
    packs = signing.write_packs(facts, key, name, check)
    signed = SignedSnapshot(snapshot_id, plan.version, plan.chain_id, plan.epoch, now, expires_at, key.public, packs)
    # Another builder has published the snapshot in the meantime.
    with suppress(Conflict):
        state.write(lambda stores: stores.signatures.record(signed))
    _log.info("snapshot.signed", snapshot_id=snapshot_id, version=plan.version, expires_at=expires_at.isoformat())


def require_signed(stores: Stores, snapshot_id: str) -> None:
    """Check that a snapshot that was published in this transaction has the statements of its publication.

    Raises StatementsOutdated, which undoes the publication.
    """
    published, signed = stores.snapshots.get(snapshot_id), stores.signatures.of_snapshot(snapshot_id)
    if signed is None and stores.signatures.trust() is None:
        return
    current = None if published is None else (published.version, published.chain_id, stores.signatures.epoch())
    if signed is None or (signed.version, signed.chain_id, signed.epoch) != current:
        raise StatementsOutdated("Another publication or an erasure came between. Repeat the publication.")


def _plan(stores: Stores, snapshot_id: str) -> _Plan | None:
    snapshot = stores.snapshots.get(snapshot_id)
    if snapshot is None:
        return None
    served, version = stores.snapshots.current(), stores.deltas.last_version() + 1
    chain_id = str(chain_of(snapshot, served, version)["chain_id"])
    return _Plan(
        snapshot,
        version,
        chain_id,
        chain_id != snapshot.snapshot_id,
        stores.signatures.epoch(),
        served,
        stores.signatures.of_snapshot(snapshot_id),
    )


def _expiry(snapshot: Snapshot, settings: Settings, now: datetime) -> datetime:
    publish_at = settings.snapshot.publish_at
    published_at = now if snapshot.day is None else max(now, publication_of(snapshot.day, publish_at))
    return next_publication(published_at, publish_at) + LATE_AFTER_EXPECTED


def _stored_completeness(store: FileStore, stored: SignedSnapshot | None) -> Completeness:
    if stored is None:
        return lambda _client_id: UNACCOUNTED
    statements = StoredStatements(store, stored)
    return lambda client_id: statements.completeness(client_id) or UNACCOUNTED


@dataclass(frozen=True, slots=True)
class _Signing:
    """Writes the packs of one signing."""

    state: State
    store: FileStore
    settings: Settings
    plan: _Plan
    completeness: Completeness

    def write_packs(
        self, facts: Facts, key: SigningKey, name: str, check: Callable[[], None]
    ) -> tuple[StatementPack, ...]:
        """Sign the statements of all accounts. Return their packs."""
        threads = self.settings.snapshot.thread_count
        with (
            self.store.revise(self.plan.snapshot.snapshot_id, name) as revision,
            ThreadPoolExecutor(threads, thread_name_prefix="sign") as executor,
        ):

            def write(numbered: tuple[int, list[tuple[str, bytes]]]) -> StatementPack:
                number, contents = numbered
                content = encode_pack([(each, sign_statement(text, key, each)) for each, text in contents])
                written = revision.write("", f"statements_{number:06}", STATEMENTS.name, [content])
                return StatementPack(contents[0][0], written.key, written.bytes, written.sha256)

            # Signing and compression release the interpreter's lock.
            contents = enumerate(self._contents(statement_template(facts), check))
            packs = tuple(bounded_map(executor, write, contents, threads + 1))
            revision.commit()
        return packs

    def _contents(self, template: bytes, check: Callable[[], None]) -> Iterator[list[tuple[str, bytes]]]:
        """Yield the accounts and the statements of each pack."""
        snapshot_id, plan = self.plan.snapshot.snapshot_id, self.plan
        accounts = self.state.read(lambda stores: sorted(stores.snapshots.leaders(snapshot_id)))
        shared = self._entries("", "").get("", {})
        chains = self.state.read(lambda stores: stores.signatures.account_chains(plan.chain_id))
        previous = self._previous_editions()
        for start in range(0, len(accounts), ACCOUNTS_PER_PACK):
            check()
            batch = accounts[start : start + ACCOUNTS_PER_PACK]
            entries, deltas = self._entries(batch[0], batch[-1]), self._deltas(batch[0], batch[-1])
            contents = []
            for client_id in batch:
                chain_id, closed_at = chains.get(client_id, (plan.chain_id, None))
                broken = closed_at is not None and closed_at >= plan.snapshot.started_at
                own_entries = shared | entries.get(client_id, {})
                section = self.completeness(client_id)
                account = AccountFacts(
                    client_id,
                    chain_id,
                    [own_entries[name] for name in RESOURCE_NAMES if name in own_entries],
                    reconciled(section, own_entries) if plan.may_have_erasures else section,
                    previous.get(client_id),
                    {} if broken else deltas.get(client_id, {}),
                )
                contents.append((client_id, statement(template, account)))
            yield contents

    def _entries(self, first: str, last: str) -> dict[str, dict[str, ListedFiles]]:
        """Return the files of the accounts from `first` to `last`, by account and resource."""
        snapshot_id, formats = self.plan.snapshot.snapshot_id, frozenset(self.settings.snapshot.formats)
        entries: dict[str, dict[str, ListedFiles]] = defaultdict(dict)
        for entry in self.state.read(lambda stores: stores.signatures.entries(snapshot_id, first, last)):
            entries[entry.client_id][entry.resource] = listed(entry, formats)
        return entries

    def _deltas(self, first: str, last: str) -> dict[str, dict[str, ResourceDelta]]:
        """Return the deltas of the accounts from `first` to `last`, by account and resource."""
        snapshot_id = self.plan.snapshot.snapshot_id
        deltas: dict[str, dict[str, ResourceDelta]] = defaultdict(dict)
        if self.plan.continues:
            for each in self.state.read(lambda stores: stores.signatures.deltas(snapshot_id, first, last)):
                deltas[each.client_id][each.resource] = each.delta
        return deltas

    def _previous_editions(self) -> dict[str, Edition]:
        """Return the editions of the version before, by account. None after a gap in the versions: the service was
        restored from a backup, and consumers may have seen the version that it serves with other content.
        """
        previous = self.plan.previous
        signed = None
        if previous is not None and previous.version == self.plan.version - 1:
            signed = self.state.read(lambda stores: stores.signatures.of_snapshot(previous.snapshot_id))
        if signed is None:
            return {}
        editions = dict(StoredStatements(self.store, signed).editions())
        revisions = self.state.read(lambda stores: stores.signatures.revisions(signed.snapshot_id))
        editions.update((each.client_id, each.edition) for each in revisions)
        return editions
