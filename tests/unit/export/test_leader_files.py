"""The file writer: parts, missing rows, and sinks that fail or are slow."""

import gzip
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from queue import Queue

import pytest

from daybreak.domain.errors import FileStoreError, RunError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import leader_files
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.leader_files import LeaderFileWriter
from daybreak.export.survey import SurveyedLeader
from daybreak.filestore.file_store import FileSink, WrittenFile
from tests.parts.export_rows import MemorySink, export_job

CUSTOM = "custom_member_data"
HEADER = b'"MEMBER_ID","LEADER_ID","CUSTOM_FIELD_NAME","CUSTOM_FIELD_VALUE"\n'


@pytest.fixture(params=["in one thread", "streamed"])
def compressors(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    if request.param == "in one thread":
        yield None
        return
    with ThreadPoolExecutor(2) as executor:
        yield executor


def chunk(lines: Sequence[bytes]) -> LeaderChunk:
    content = {"csv": memoryview(b"".join(lines)), "json": memoryview(b"".join(b",\n{%d}" % len(one) for one in lines))}
    return LeaderChunk("", len(lines), content)


def leader(client_id: str, rows: int) -> SurveyedLeader:
    return SurveyedLeader(client_id, rows, f"fingerprint of {client_id}")


def write(
    sink: FileSink, leaders: dict[str, list[Sequence[bytes]]], compressors: Executor | None
) -> list[ManifestEntry]:
    """Write the chunks of each Leader in two formats with different kinds of line."""
    with LeaderFileWriter(export_job(CUSTOM), sink, compressors=compressors) as files:
        for client_id, chunks in leaders.items():
            files.begin(leader(client_id, sum(map(len, chunks))))
            for lines in chunks:
                files.add(chunk(lines))
        files.finish()
    return files.finished()[0]


@pytest.mark.parametrize("excess", [-1, 0, 1])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_content_is_whole_at_every_part_boundary(
    monkeypatch: pytest.MonkeyPatch, compressors: Executor | None, excess: int, parts: int
) -> None:
    lines = [b"a line of some length %d\n" % number for number in range(50)]
    expected = HEADER + b"".join(lines)
    monkeypatch.setattr(leader_files, "PART_BYTES", (len(expected) + excess) // parts)
    sink = MemorySink()
    [entry] = write(sink, {"one": [lines[:7], lines[7:]]}, compressors)
    assert gzip.decompress(sink.files["one", CUSTOM, "csv"]) == expected
    assert entry.formats["csv"].content_bytes == len(expected)
    assert gzip.decompress(sink.files["one", CUSTOM, "json"])[:1] == b"["


def test_entries_are_complete_and_in_format_order(compressors: Executor | None) -> None:
    sink = MemorySink()
    entries = write(sink, {f"leader {number}": [[b"line\n"] * number] for number in range(1, 300)}, compressors)
    assert sorted(entry.rows for entry in entries) == list(range(1, 300))
    assert {tuple(entry.formats) for entry in entries} == {("csv", "json")}
    assert all(entry.fingerprint == f"fingerprint of {entry.client_id}" for entry in entries)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_wrong_row_count_is_an_error(rows: int) -> None:
    with LeaderFileWriter(export_job(CUSTOM), MemorySink()) as files:
        files.begin(leader("one", 2))
        files.add(chunk([b"line\n"] * rows))
        with pytest.raises(RunError, match=f"has 2 rows in {CUSTOM}, but {rows} were received"):
            files.finish()


class FullSink(MemorySink):
    """A sink that fails after `after` files."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._left = after
        self._count = threading.Lock()

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        with self._count:
            self._left -= 1
            if self._left < 0:
                raise FileStoreError("No space left.")
        return super().write(client_id, resource, format, pieces)


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("part_bytes", [2_000, 1 << 20], ids=["large files", "small files"])
def test_sink_failure_is_raised_and_threads_end(monkeypatch: pytest.MonkeyPatch, after: int, part_bytes: int) -> None:
    monkeypatch.setattr(leader_files, "PART_BYTES", part_bytes)
    threads = set(threading.enumerate())
    leaders: dict[str, list[Sequence[bytes]]] = {
        f"leader {number}": [[b"x" * 99 + b"\n"] * 200] for number in range(50)
    }
    with pytest.raises(FileStoreError, match="No space left"), ThreadPoolExecutor(2) as executor:
        write(FullSink(after), leaders, executor)
    assert threads.issuperset(threading.enumerate())


def test_caller_error_ends_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_files, "PART_BYTES", 1_000)
    threads = set(threading.enumerate())

    def interrupted() -> None:
        with (
            ThreadPoolExecutor(2) as executor,
            LeaderFileWriter(export_job(CUSTOM), MemorySink(), compressors=executor) as files,
        ):
            files.begin(leader("one", 1_000))
            files.add(chunk([b"x" * 99 + b"\n"] * 100))
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert threads.issuperset(threading.enumerate())


class BlockedSink(MemorySink):
    """A sink whose writes block until `released` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        self.released.wait()
        return super().write(client_id, resource, format, pieces)


def test_blocked_sink_bounds_the_waiting_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_files, "PART_BYTES", 1_000)
    sink, full = BlockedSink(), threading.Event()
    put = Queue.put

    def watched(parts: Queue[object], part: object, timeout: float) -> None:
        if parts.qsize() == leader_files._WAITING_PARTS:
            full.set()
        put(parts, part, timeout=timeout)
        assert sink.released.is_set() or parts.qsize() <= leader_files._WAITING_PARTS

    monkeypatch.setattr(Queue, "put", watched)

    def read() -> None:
        with (
            ThreadPoolExecutor(2) as executor,
            LeaderFileWriter(export_job(CUSTOM, ("csv",)), sink, compressors=executor) as files,
        ):
            files.begin(leader("one", 5_000))
            for _ in range(500):
                files.add(chunk([b"x" * 99 + b"\n"] * 10))
            files.finish()

    reader = threading.Thread(target=read)
    reader.start()
    assert full.wait(60), "the queue was never full"
    sink.released.set()
    reader.join()
    assert len(gzip.decompress(sink.files["one", CUSTOM, "csv"])) == len(HEADER) + 500_000


def test_added_lines_may_be_overwritten() -> None:
    sink = MemorySink()
    buffer = bytearray(b"first\n")
    with LeaderFileWriter(export_job(CUSTOM, ("csv",)), sink) as files:
        files.begin(leader("one", 2))
        for line in (b"first\n", b"other\n"):
            buffer[:] = line
            files.add(LeaderChunk("one", 1, {"csv": memoryview(buffer)}))
        files.finish()
    assert gzip.decompress(sink.files["one", CUSTOM, "csv"]) == HEADER + b"first\nother\n"
