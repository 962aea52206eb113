"""The feed of an account's deltas."""

from dataclasses import dataclass

from daybreak.access.authorization import require_in_context
from daybreak.access.services import Services
from daybreak.catalogue.download_paths import manifest_path
from daybreak.domain.delta import CHAIN_REASONS, VERSION_UNKNOWN, Chain
from daybreak.domain.errors import ChainClosed
from daybreak.domain.identity import Principal
from daybreak.domain.snapshot import Freshness
from daybreak.downloads import not_ready
from daybreak.snapshots.freshness import freshness
from daybreak.state.stores import Stores


@dataclass(frozen=True, slots=True)
class DeltaFeed:
    """An account's chain with the entries that a consumer asked for, and the freshness of its files."""

    chain: Chain
    freshness: Freshness


async def delta_feed(services: Services, principal: Principal, client_id: str, since: int | None = None) -> DeltaFeed:
    """Return the chain of an account, without the entries up to version `since`.

    Raises Forbidden, NotFound(snapshot_not_ready), ChainClosed if deltas do not continue from `since`.
    """
    await require_in_context(services.state, principal, "download", client_id)
    now = services.clock()

    def read(stores: Stores) -> tuple[Chain | None, Freshness]:
        chain = stores.deltas.chain(client_id)
        return chain, freshness(stores.snapshots, now, services.settings.snapshot.publish_at)

    chain, fresh = await services.state.aread(read)
    if chain is None:
        raise await not_ready(services, client_id)
    if since is None:
        return DeltaFeed(chain, fresh)
    if not chain.oldest_version <= since <= chain.current.version:
        reason = chain.started_by if since < chain.oldest_version else VERSION_UNKNOWN
        explanation = CHAIN_REASONS.get(reason, reason.replace("_", " "))
        raise ChainClosed(
            f"There are no deltas from version {since}: {explanation}. Load the full files.",
            reason=reason,
            manifest=manifest_path(client_id),
        )
    return DeltaFeed(chain.after(since), fresh)
