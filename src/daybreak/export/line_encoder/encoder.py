"""Sorts the records of a bucket, and encodes them as CSV and JSON lines, with the compiled code.

The lines are byte for byte the same as those of `daybreak.export.line_sql`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.line_encoder.records import HEADER, KINDS, LEADER, RecordLayout, write_words
from daybreak.export.line_encoder.runtime import Instance
from daybreak.export.line_sql import JSON_SEPARATOR

OUTPUT_BYTES = 3 << 20
"""Size of each output, unless a single line is larger."""
_WHOLE_OUTPUT_RATIO = 4
"""Size of each output for a whole bucket, divided by that of its records. Most lines fit."""
_ENTRY_BYTES, _LONGEST_PIECE = 16, 32
_NEXT_CELL, _LEADER_ID = 0xFFFFFFFF, 0xFFFFFFFE


class BucketEncoder:
    """Encodes buckets of one resource, one after the other. `leaders` are the Leaders by ordinal, and `identifiers` the
    same in sixteen bytes each.
    """

    def __init__(self, layout: RecordLayout, leaders: Sequence[str], identifiers: bytes) -> None:
        self.instance, self._leaders = Instance(), leaders
        instance = self.instance
        self._least_record_bytes = HEADER.size + len(layout.cells)
        places = {column.name: place for place, column in enumerate(layout.cells[: layout.key_cells])}
        columns: list[int] = []
        for column in layout.resource.columns:
            csv = b"," if columns else b""
            json = (b"," if columns else JSON_SEPARATOR + b"{") + f'"{column.name}":'.encode()
            assert len(json) <= _LONGEST_PIECE
            place = _LEADER_ID if column.name == LEADER else places.get(column.name, _NEXT_CELL)
            columns += (KINDS[column.type], place, instance.write(csv), len(csv), instance.write(json), len(json))
        kinds = [KINDS[column.type] for column in layout.cells]
        columns_at, kinds_at = instance.reserve(4 * len(columns)), instance.reserve(4 * len(kinds))
        write_words(instance, columns_at, *columns)
        write_words(instance, kinds_at, *kinds)
        leaders_at = instance.write(identifiers)
        self._constants = (
            columns_at, len(layout.resource.columns), kinds_at, len(kinds), layout.key_cells, leaders_at,
        )  # fmt: skip
        self._task_at = instance.reserve(64)
        self._fixed = instance.free

    def encode(
        self, ordinals: range, size_bytes: int, read: Callable[[memoryview], None]
    ) -> Iterator[list[LeaderChunk]]:
        """Yield the lines of a bucket in order. `ordinals` are those of its Leaders, and `read` copies all records to a
        buffer of `size_bytes`. Each list overwrites the lines of the previous one. Raises RunError for a malformed row.
        """
        for output in self._outputs(ordinals, size_bytes, read, OUTPUT_BYTES):
            yield output.chunks(self.instance.memory)
            self.instance.free = output.start

    def encode_whole(
        self, ordinals: range, size_bytes: int, read: Callable[[memoryview], None], give_back: Callable[[], object]
    ) -> list[LeaderChunk]:
        """Return all lines of a bucket. `give_back` is called after their last use. Until then, encode nothing else."""
        outputs = list(self._outputs(ordinals, size_bytes, read, _WHOLE_OUTPUT_RATIO * size_bytes))
        memory = self.instance.lend(give_back)
        return [chunk for output in outputs for chunk in output.chunks(memory)]

    def _outputs(
        self, ordinals: range, size_bytes: int, read: Callable[[memoryview], None], capacity: int
    ) -> Iterator["_Output"]:
        self.instance.free = self._fixed
        entries_at, counts = self._sort(ordinals, size_bytes, read)
        rows, row = sum(counts), 0
        groups = iter([(self._leaders[place], count) for place, count in enumerate(counts, ordinals.start) if count])
        client_id, left = next(groups, ("", 0))
        while row < rows:
            output = self._encode(entries_at, row, rows, capacity)
            if output.rows == 0:
                self.instance.free = output.start
                capacity *= 2
                continue
            row += output.rows
            missing = output.rows
            while missing:
                taken = min(left, missing)
                output.groups.append((client_id, taken))
                missing -= taken
                left -= taken
                if not left:
                    client_id, left = next(groups, ("", 0))
            yield output

    def _sort(self, ordinals: range, size_bytes: int, read: Callable[[memoryview], None]) -> tuple[int, list[int]]:
        """Return the address of the sorted entries, and the number of rows of each Leader."""
        instance = self.instance
        from_at = instance.reserve(size_bytes)
        counts_at = instance.reserve(4 * len(ordinals))
        index_bytes = size_bytes // self._least_record_bytes * _ENTRY_BYTES
        entries_at, spare_at = instance.reserve(index_bytes), instance.reserve(index_bytes)
        end_at = from_at + size_bytes
        read(instance.memory[from_at:end_at])
        write_words(
            instance, self._task_at, from_at, end_at, ordinals.start, len(ordinals), counts_at, entries_at, spare_at,
        )  # fmt: skip
        instance.call("sort", self._task_at)
        return entries_at, instance.memory[counts_at : counts_at + 4 * len(ordinals)].cast("I").tolist()

    def _encode(self, entries_at: int, row: int, rows: int, capacity: int) -> "_Output":
        instance = self.instance
        start = instance.free
        csv_at, json_at = instance.reserve(capacity), instance.reserve(capacity)
        csv_offsets_at, json_offsets_at = (instance.reserve(4 * (rows - row + 1)) for _ in "ab")
        write_words(
            instance, self._task_at, *self._constants, entries_at, row, rows, csv_at, json_at, capacity,
            csv_offsets_at, json_offsets_at,
        )  # fmt: skip
        encoded = instance.call("encode", self._task_at) - row
        return _Output(start, encoded, {"csv": (csv_at, csv_offsets_at), "json": (json_at, json_offsets_at)})


@dataclass(frozen=True, slots=True)
class _Output:
    """Encoded rows in the memory from `start` on: addresses of lines and offsets by kind of line. `groups` are pairs of
    a Leader and its number of rows.
    """

    start: int
    rows: int
    addresses: dict[str, tuple[int, int]]
    groups: list[tuple[str, int]] = field(default_factory=list)

    def chunks(self, memory: memoryview) -> list[LeaderChunk]:
        views = [
            (kind, memory[at:], memory[offsets_at : offsets_at + 4 * (self.rows + 1)].cast("i"))
            for kind, (at, offsets_at) in self.addresses.items()
        ]
        found, row = [], 0
        for client_id, rows in self.groups:
            end = row + rows
            lines = {kind: content[offsets[row] : offsets[end]] for kind, content, offsets in views}
            found.append(LeaderChunk(client_id, rows, lines))
            row = end
        return found
