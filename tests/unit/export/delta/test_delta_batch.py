"""Deltas of small files: each is that of a file alone, also next to Leaders with faults."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import LARGER_THAN_FULL, ResourceDelta
from daybreak.domain.errors import FileStoreError
from daybreak.domain.snapshot import StoredFormat
from daybreak.export import leader_files
from daybreak.export.delta import delta_batch
from daybreak.export.delta.kernel.kernel import merge_engines
from daybreak.export.delta.merge import MergeEngine, RowMerge
from daybreak.export.gzip_member import CODECS, GzipMember
from daybreak.export.job import DeltaBase, DeltaJob
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.leader_files import LeaderFileWriter
from daybreak.export.line_sql import csv_header
from daybreak.export.survey import SurveyedLeader
from daybreak.filestore.file_store import WrittenFile
from tests.parts.export_rows import MemorySink, export_job

RESOURCE = resource_named("custom_member_data")
HEADER = csv_header(RESOURCE)
Rows = Sequence[tuple[int, int]]
"""Number of the Member, and value."""
Engines = Callable[[], MergeEngine]


@pytest.fixture(scope="module")
def compiled() -> Engines:
    return merge_engines(RESOURCE)


@pytest.fixture(params=["python", "compiled"])
def open_engine(request: pytest.FixtureRequest, compiled: Engines) -> Engines:
    return compiled if request.param == "compiled" else lambda: RowMerge(RESOURCE)


def lines(rows: Rows) -> list[bytes]:
    return [b'"%032x","00000000-0000-4000-8000-000000000000","field","value %d"\n' % row for row in rows]


def compressed(content: bytes) -> bytes:
    return b"".join(GzipMember(CODECS["igzip-2"]).compressed([content]))


def member(rows: Rows) -> bytes:
    return compressed(HEADER + b"".join(lines(rows)))


def base(client_id: str, rows: Rows) -> DeltaBase:
    content, stored = HEADER + b"".join(lines(rows)), member(rows)
    digests = [hashlib.sha256(one).hexdigest() for one in (stored, content)]
    return DeltaBase(len(rows), StoredFormat(len(stored), digests[0], len(content), digests[1], client_id))


def deltas_of(
    platform: Mapping[str, tuple[Rows, Rows]],
    sink: MemorySink,
    open_engine: Engines,
    turn: AbstractContextManager[object] | None = None,
    compressors: Executor | None = None,
) -> dict[str, ResourceDelta]:
    """Write the files of Leaders from their rows before and after. Return the deltas."""
    bases = {client_id: base(client_id, before) for client_id, (before, _) in platform.items()}
    job = replace(export_job(RESOURCE.name), deltas=DeltaJob(bases))
    with LeaderFileWriter(job, sink, None, compressors, open_engine, turn) as files:
        for client_id, (_, after) in platform.items():
            files.begin(SurveyedLeader(client_id, len(after), "fingerprint"))
            kinds = {"csv": memoryview(b"".join(lines(after))), "json": memoryview(b",\n{}" * len(after))}
            files.add(LeaderChunk(client_id, len(after), kinds))
        files.finish()
    return {each.client_id: each.delta for each in files.finished()[1]}


def sink_with(platform: Mapping[str, tuple[Rows, Rows]]) -> MemorySink:
    """Return a sink with the previous files."""
    return MemorySink({client_id: member(before) for client_id, (before, _) in platform.items()})


def deltas_alone(
    platform: Mapping[str, tuple[Rows, Rows]], earlier: Mapping[str, bytes], open_engine: Engines
) -> tuple[dict[str, ResourceDelta], dict[tuple[str, str, str], bytes]]:
    """Return the deltas and files that each Leader has when its delta is made together with the file."""
    sink = MemorySink(earlier)
    deltas: dict[str, ResourceDelta] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader_files, "SMALL_BYTES", 0)
        for client_id, rows in platform.items():
            deltas |= deltas_of({client_id: rows}, sink, open_engine)
    return deltas, sink.files


def many(rows: int, *changed: int) -> tuple[Rows, Rows]:
    before = [(number, 0) for number in range(rows)]
    return before, [(number, int(number in changed)) for number in range(rows)]


PLATFORM = {
    "changed": many(100, 0, 99),
    "unchanged": many(100),
    "tiny": many(1, 0),
    "more rows": (many(50)[0], many(80)[0]),
    "other keys": (many(120)[0], [(number, 0) for number in range(1_000, 1_090)]),
    "same key": ([(7, 1)] * 60 + [(8, 1)] * 60, [(7, 1)] * 60 + [(8, 2)] + [(8, 1)] * 59),
}
FAULTS: dict[str, Callable[[bytes], bytes | None]] = {
    "previous_file_damaged": lambda stored: stored[:-12] + stored[-8:],
    "previous_file_missing": lambda _stored: None,
    "columns_changed": lambda _stored: compressed(b'"OTHER"\n' + b'"x"\n' * 100),
    "rows_not_in_order": lambda _stored: member(many(100)[0][::-1]),
    "rows_incomplete": lambda _stored: compressed(HEADER + b"".join(lines(many(100)[0]))[:-9]),
    "verification_failed": lambda _stored: member(many(99)[0]),
}


@pytest.mark.parametrize("place", [0, 3, 6], ids=["first", "middle", "last"])
@pytest.mark.parametrize("reason", FAULTS)
def test_fault_affects_its_leader_only(open_engine: Engines, reason: str, place: int) -> None:
    names = list(PLATFORM)
    names.insert(place, "faulty")
    platform = {name: PLATFORM.get(name, many(100, 5)) for name in names}
    sink = sink_with(platform)
    earlier = {name: FAULTS[reason](content) if name == "faulty" else content for name, content in sink.earlier.items()}
    sink.earlier = {name: content for name, content in earlier.items() if content is not None}
    deltas = deltas_of(platform, sink, open_engine)
    assert deltas.pop("faulty").reason == reason
    assert deltas == deltas_alone(PLATFORM, sink.earlier, open_engine)[0]
    assert {name: delta.reason for name, delta in deltas.items()} == {
        "changed": "", "tiny": LARGER_THAN_FULL, "more rows": LARGER_THAN_FULL, "other keys": LARGER_THAN_FULL,
        "same key": LARGER_THAN_FULL,
    }  # fmt: skip


def test_empty_previous_file_has_no_columns(open_engine: Engines) -> None:
    sink = sink_with(PLATFORM)
    sink.earlier = {**sink.earlier, "changed": compressed(b"")}
    assert deltas_of(PLATFORM, sink, open_engine)["changed"].reason == "columns_changed"


@pytest.mark.parametrize("excess", [-1, 0, 1])
@pytest.mark.parametrize("leaders", [1, 2, 5])
def test_deltas_are_the_same_at_every_limit(
    monkeypatch: pytest.MonkeyPatch, open_engine: Engines, leaders: int, excess: int
) -> None:
    """Batches that are full after some Leaders, and files as large as a small one may be."""
    platform = {f"leader {number}": many(60, number) for number in range(5)}
    content_bytes = len(HEADER) + len(b"".join(lines(platform["leader 0"][1])))
    expected = deltas_alone(platform, sink_with(platform).earlier, open_engine)
    monkeypatch.setattr(delta_batch, "BATCH_BYTES", leaders * content_bytes + excess)
    for small_bytes in (1 << 20, content_bytes + excess):
        monkeypatch.setattr(leader_files, "SMALL_BYTES", small_bytes)
        sink = sink_with(platform)
        assert (deltas_of(platform, sink, open_engine), sink.files) == expected


@given(
    st.lists(
        st.tuples(*[st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), min_size=1).map(sorted)] * 2),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4_000),
)
def test_any_batch_is_like_leaders_alone(compiled: Engines, leaders: list[tuple[Rows, Rows]], batch_bytes: int) -> None:
    platform = {f"leader {number}": rows for number, rows in enumerate(leaders)}
    earlier = sink_with(platform).earlier
    expected = deltas_alone(platform, earlier, lambda: RowMerge(RESOURCE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_batch, "BATCH_BYTES", batch_bytes)
        sink = MemorySink(earlier)
        assert (deltas_of(platform, sink, compiled), sink.files) == expected


def test_streamed_files_have_the_same_deltas(open_engine: Engines) -> None:
    platform = {**PLATFORM, "large": many(12_000, 7, 9_000)}
    sink = sink_with(platform)
    with ThreadPoolExecutor(2) as executor:
        found = deltas_of(platform, sink, open_engine, compressors=executor)
    assert (found, sink.files) == deltas_alone(platform, sink.earlier, open_engine)


LARGER = "larger leader"


class Turn:
    """A context that counts how often it was taken, and is not taken twice at the same time."""

    def __init__(self) -> None:
        self.is_taken, self.count = False, 0

    def __enter__(self) -> None:
        assert not self.is_taken
        self.is_taken, self.count = True, self.count + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_taken = False


class TurnSink(MemorySink):
    """A sink that stores deltas in turns only."""

    def __init__(self, earlier: Mapping[str, bytes], turn: Turn) -> None:
        super().__init__(earlier)
        self._turn = turn

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        assert self._turn.is_taken == (format.startswith("delta_") and client_id != LARGER), (client_id, format)
        return super().write(client_id, resource, format, pieces)


def test_several_deltas_are_made_in_a_turn(monkeypatch: pytest.MonkeyPatch, compiled: Engines) -> None:
    """Deltas of larger files, here of the last Leader, need no turn."""
    platform = {f"leader {number}": many(100, number) for number in range(9)} | {LARGER: many(200, 7)}
    monkeypatch.setattr(delta_batch, "_TURN_BYTES", 150 * len(lines(platform[LARGER][1])[0]))
    turn = Turn()
    assert len(deltas_of(platform, TurnSink(sink_with(platform).earlier, turn), compiled, turn)) == 10
    assert turn.count == 1


class FullSink(MemorySink):
    """A sink without space for the deltas of one Leader."""

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        if client_id == "leader 3" and format.startswith("delta_"):
            raise FileStoreError("No space left.")
        return super().write(client_id, resource, format, pieces)


def test_full_sink_ends_the_export(compiled: Engines) -> None:
    platform = {f"leader {number}": many(100, number) for number in range(5)}
    with pytest.raises(FileStoreError, match="No space left"):
        deltas_of(platform, FullSink(sink_with(platform).earlier), compiled)
