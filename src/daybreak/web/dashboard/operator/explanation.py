"""Handlers of the page that explains which rows a held snapshot lacks, from the files of both snapshots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest

from starlette.responses import Response

from daybreak.access.authorization import REQUIREMENTS, account_fault
from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import NotFound
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.downloads import record_download
from daybreak.filestore.file_store import FileStore
from daybreak.insight.missing_rows import MissingRows, Trait, missing_rows
from daybreak.insight.published_tables import Interruption, PublishedTables
from daybreak.state.stores import Stores
from daybreak.web.dashboard.insight.queries import FigureCache
from daybreak.web.dashboard.operator.comparison import findings_of
from daybreak.web.dashboard.operator.runs import published_before, requested_run
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_LEADERS_LISTED = 10
_LEADERS_EXPLAINED = 3
_KEPT = "The files of the snapshot before are no longer kept, so that nothing can be compared."


@dataclass(frozen=True, slots=True)
class _Loss:
    """Rows of one Leader before and now, and its files if they are compared."""

    client_id: str
    before: int
    now: int
    entries: tuple[ManifestEntry, ManifestEntry | None] | None = None

    @property
    def rows(self) -> int:
        return self.before - self.now


@dataclass(frozen=True, slots=True)
class _Losses:
    """A resource of a run and the snapshot before, the largest losses, and their sum with those not listed."""

    run: Snapshot
    previous: Snapshot
    resource: Resource
    largest: tuple[_Loss, ...]
    leaders: int
    rows: int
    names: Mapping[str, str]


async def show_explanation(cache: FigureCache, page: PageRequest) -> Response:
    """Show the Leaders that lost most rows of a resource, and what the missing rows have in common."""
    losses = await _load(page)
    compared = []
    for loss in losses.largest:
        if loss.entries is not None:
            compute = partial(_compare, page.services.files, loss.entries)
            key = (losses.run.snapshot_id, losses.resource.name, loss.client_id)
            compared.append((loss, await cache.get("missing_rows", key, page.queue_account, compute)))
    sections = []
    # Recorded when all are compared: until then, another page is shown.
    for loss, found in compared:
        is_visible = await may_see(page, loss.client_id)
        if is_visible and found.sample and page.request.method == "GET":
            await _record(page, losses, loss.client_id, len(found.sample))
        traits = [each for each in found.traits if is_visible or _is_impersonal(each)]
        sections.append({"loss": loss, "found": found, "traits": traits, "may_see": is_visible})
    return _page(page, losses, sections)


async def show_waiting(page: PageRequest) -> Response:
    """Show the Leaders that lost most rows while their files are compared. The page reloads itself."""
    return _page(page, await _load(page), None)


def _page(page: PageRequest, losses: _Losses, sections: Sequence[Mapping[str, object]] | None) -> Response:
    context = {"losses": losses, "resources": RESOURCES, "sections": sections, "reloads": sections is None}
    return render_page(page, "operator/explanation.html", context)


async def _load(page: PageRequest) -> _Losses:
    """Read the Leaders that lost rows of a resource. Raises NotFound."""
    run = await requested_run(page)
    resource = _requested_resource(page, run)

    def read(stores: Stores) -> _Losses:
        previous = published_before(stores, run)
        if previous is None or previous.snapshot_id not in {each.snapshot_id for each in stores.snapshots.served()}:
            raise NotFound(_KEPT)
        ids = (previous.snapshot_id, run.snapshot_id)
        lost = [_Loss(*row) for row in stores.snapshots.rows_lost(*ids, resource.name, least_rows=1, share=0)]
        largest = nlargest(_LEADERS_LISTED, lost, key=lambda each: each.rows)
        compared = []
        for each in largest[:_LEADERS_EXPLAINED]:
            found = stores.snapshots.manifests(ids, each.client_id, [resource.name])
            before, now = (found.get(snapshot_id, {}).get(resource.name) for snapshot_id in ids)
            compared.append(_Loss(each.client_id, each.before, each.now, None if before is None else (before, now)))
        names = stores.directory.names([each.client_id for each in largest])
        shown = (*compared, *largest[_LEADERS_EXPLAINED:])
        return _Losses(run, previous, resource, shown, len(lost), sum(each.rows for each in lost), names)

    # Run in a thread: 100,000 accounts may have lost rows.
    return await page.read_long(read)


def _requested_resource(page: PageRequest, run: Snapshot) -> Resource:
    """Return the resource that the query names, else the first with lost rows. Raises NotFound."""
    lost = [entry.resource for kind in ("rows", "leader_rows") for entry in findings_of(run, kind)]
    name = page.request.query_params.get("resource") or str(lost[0] if lost else RESOURCES[0].name)
    try:
        return resource_named(name)
    except KeyError:
        raise NotFound("No such resource.") from None


def _compare(
    files: FileStore, entries: tuple[ManifestEntry, ManifestEntry | None], interruption: Interruption
) -> MissingRows:
    before, now = entries
    present = [] if now is None else [now]
    with PublishedTables.open(files, present, interruption, before=before) as tables:
        return missing_rows(tables, resource_named(before.resource), is_absent=now is None)


async def may_see(page: PageRequest, client_id: str) -> bool:
    """Return whether the session may download the files of an account."""
    granted = await page.read(lambda stores: stores.seats.granted_account(page.seat.seat_id, client_id))
    if granted is None:
        return False
    policy, account = page.services.settings.access.require_second_factor, granted.account.status
    return account_fault(account, granted.grant, page.session, policy, REQUIREMENTS["download"]) is None


async def _record(page: PageRequest, losses: _Losses, client_id: str, rows: int) -> None:
    details = {"file": losses.resource.name, "snapshot_id": losses.previous.snapshot_id, "rows": rows}
    origin = EventOrigin(page.now, page.caller, page.seat, client_id, page.active_session.subject)
    await record_download(page.services, origin, "file.previewed", "ok", details)


def _is_impersonal(trait: Trait) -> bool:
    """Return whether users who may not see the files may see a value."""
    column = trait.column
    return bool(column.allowed) or column.type in (ColumnType.BOOLEAN, ColumnType.TIMESTAMP)
