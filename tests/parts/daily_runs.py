"""Runs on consecutive days, with the full files and the deltas of each day in memory."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from daybreak.catalogue.formats import DEFAULT_FORMATS
from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.domain.delta import ChainEntry, ResourceDelta
from daybreak.domain.snapshot import Snapshot
from daybreak.filestore.file_store import FileStore
from daybreak.snapshots.run import run_manually
from daybreak.sources.reading import RowSource
from daybreak.state.stores import Stores
from tests.configured import DEFAULTS, configured
from tests.parts.sources import duckdb_source
from tests.reference import deltas as reference
from tests.reference.days import ChangingPlatform
from tests.reference.platforms import write_parquet
from tests.small_platform import context_in

FileKey = tuple[int, str, str]
"""Version, client_id and resource."""
SETTINGS = configured(
    DEFAULTS,
    snapshot={"keep": 400, "keep_deltas": DEFAULTS.audit.keep, "verify_deltas": 1.0},
    guard={"enabled": False},
    # With deltas in Parquet.
    sharing={"enabled": True},
)


@dataclass
class DailyRuns:
    """Snapshots of a changing platform. `folder` is that of `context_in`.

    `fulls` has the decompressed CSV files by version, client_id and resource, `deltas` the changes.
    """

    folder: Path
    platform: ChangingPlatform
    make_source: Callable[[Path, Path], RowSource] = duckdb_source
    store: FileStore | None = None
    fulls: dict[FileKey, bytes] = field(default_factory=dict)
    deltas: dict[FileKey, ResourceDelta] = field(default_factory=dict)
    contents: dict[FileKey, tuple[bytes, bytes]] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.context = context_in(self.folder, store=self.store, settings=SETTINGS, clock=lambda: self.platform.as_of)

    def run(self) -> Snapshot:
        """Publish a snapshot of the platform, and read its files."""
        location = self.folder / "parquet" / f"{self.platform.as_of:%Y-%m-%d}"
        write_parquet(self.platform.tables, location)
        self.context = replace(self.context, source=self.make_source(location, self.folder / "spill"))
        done = run_manually(self.context)
        assert done.version is not None

        def read(stores: Stores) -> list[tuple[str, Mapping[str, str], ChainEntry | None]]:
            found: list[tuple[str, Mapping[str, str], ChainEntry | None]] = []
            for client_id in stores.snapshots.leaders(done.snapshot_id):
                keys = {
                    e.resource: e.formats["csv"].key for e in stores.snapshots.manifest(done.snapshot_id, client_id)
                }
                chain = stores.deltas.chain(client_id)
                entry = chain.entries[-1] if chain is not None and chain.entries else None
                assert entry is None or entry.publication.version == done.version
                found.append((client_id, keys, entry))
            return found

        for client_id, keys, entry in self.context.state.read(read):
            for resource, key in keys.items():
                self.fulls[done.version, client_id, resource] = self._content(key)
            for resource, delta in (entry.resources if entry else {}).items():
                self.deltas[done.version, client_id, resource] = delta
                self.states[delta.reason or delta.state] += 1
                if delta.formats:
                    assert set(delta.formats) == ({*DEFAULT_FORMATS, "parquet"} if delta.lines else {*DEFAULT_FORMATS})
                    both = (self._content(delta.formats["csv"].key), self._content(delta.formats["json"].key))
                    self.contents[done.version, client_id, resource] = both
        return done

    def close(self) -> None:
        """Close the state database."""
        self.context.state.close()

    def check_day(self, version: int) -> None:
        """Compare the deltas of a version with those of the reference."""
        for resource in RESOURCES:
            for client_id in {key[1] for key in self.fulls if key[0] == version}:
                before = self.fulls.get((version - 1, client_id, resource.name))
                if before is None:
                    continue
                key = (version, client_id, resource.name)
                after, delta = self.fulls[key], self.deltas.get(key)
                if delta is None:
                    assert before == after, key
                elif delta.formats:
                    csv, as_json = self.contents[key]
                    assert csv == reference.expected_delta(before, after, resource), key
                    assert json.loads(as_json) == reference.delta_json(csv, resource), key
                else:
                    assert delta.reason == "larger_than_full", key
                    expected = reference.expected_delta(before, after, resource)
                    stored = len(gzip.compress(expected, 1))
                    assert stored > 0.4 * len(gzip.compress(after, 1)), key

    def check_pairs(self, count: int, seed: int = 1) -> int:
        """Apply the deltas between random pairs of versions. Return the number of deltas applied."""
        draw = random.Random(seed)
        accounts = sorted({key[1:] for key in self.fulls})
        versions = sorted({key[0] for key in self.fulls})
        applied = 0
        for _ in range(count):
            (client_id, name), (first, last) = draw.choice(accounts), sorted(draw.choices(versions, k=2))
            resource = resource_named(name)
            content = self.fulls.get((first, client_id, name))
            for version in range(first + 1, last + 1):
                key = (version, client_id, name)
                delta = self.deltas.get(key)
                if key not in self.fulls:
                    content = None
                elif content is None or (delta is not None and not delta.formats):
                    content = self.fulls[key]
                elif delta is not None:
                    content = reference.applied(content, self.contents[key][0], resource, delta.constants)
                    applied += 1
            assert content == self.fulls.get((last, client_id, name)), (client_id, name, first, last)
        return applied

    def _content(self, key: str) -> bytes:
        return gzip.decompress(b"".join(self.context.store.read(key)))
