"""Lines of buckets, in file order: neighboring small buckets together, and a bucket that is too large in parts."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from daybreak.export.bounded_map import bounded_map
from daybreak.export.buckets import Buckets, Segment, grouped, move_segments
from daybreak.export.leader_chunks import LeaderChunk, LineBundle
from daybreak.export.line_encoder.encoder import BucketEncoder
from daybreak.export.line_encoder.partitioner import Divided, Divider
from daybreak.export.line_encoder.pool import Pool
from daybreak.export.line_encoder.records import HEADER
from daybreak.export.row_partition import RowPartition, fill_buckets

_MAX_BUCKET_BYTES = 16 << 20
_MIN_BUCKET_BYTES = 1 << 20
_BUNDLE_BYTES = 4 << 20
"""Size up to which small buckets are combined: enough work for a thread, and not much for the last one."""
_MAX_POOLED_BYTES = 64 << 20
_GROUP_BYTES = 1 << 20
_SIZE = attrgetter("size")
_SAMPLES, _SAMPLE_BYTES, _SAMPLED_BYTES = 32, 256, 1 << 16


@dataclass(frozen=True, slots=True)
class Bucket:
    """Records of neighboring Leaders, whose ordinals are in `ordinals`. Segments are moved once, which frees memory."""

    ordinals: range
    segments: Sequence[Segment]
    size_bytes: int


class BucketLines:
    """Encodes the buckets of a partition."""

    def __init__(self, partition: RowPartition, executor: Executor, threads: int) -> None:
        self._partition, self._executor, self._threads = partition, executor, threads
        self._max_bytes = max(_MIN_BUCKET_BYTES, min(_MAX_BUCKET_BYTES, partition.buckets.max_bytes // (8 * threads)))
        new_encoder = partial(BucketEncoder, partition.layout, partition.leaders, partition.identifiers)
        self._encoders = Pool(new_encoder, _MAX_POOLED_BYTES)

    def bundles(self) -> Iterator[LineBundle]:
        """Yield the lines of all Leaders in order. Small buckets are combined."""
        partition, bundle_bytes = self._partition, min(_BUNDLE_BYTES, self._max_bytes)
        sizes = partition.buckets.sizes
        for buckets in _neighbors(sizes, bundle_bytes):
            segments = partition.buckets.segments(buckets)
            bucket = Bucket(partition.ordinals(buckets), segments, sum(sizes[buckets.start : buckets.stop]))
            is_large = bucket.size_bytes > self._max_bytes
            yield LineBundle(self._lines_in_parts(bucket) if is_large else self._lines(bucket), is_large)

    def _lines(self, bucket: Bucket) -> Iterator[list[LeaderChunk]]:
        """Yield the lines of a bucket in order. Each list overwrites the lines of the previous list."""
        encoder = self._encoders.take()
        yield from encoder.encode(bucket.ordinals, bucket.size_bytes, partial(move_segments, bucket.segments))
        self._encoders.give_back(encoder)

    def _lines_in_parts(self, bucket: Bucket) -> Iterator[list[LeaderChunk]]:
        """Yield the lines of a bucket in order. Its parts are encoded in parallel."""

        def encode(part: Bucket) -> list[LeaderChunk]:
            encoder = self._encoders.take()
            read = partial(move_segments, part.segments)
            give_back = partial(self._encoders.give_back, encoder)
            return encoder.encode_whole(part.ordinals, part.size_bytes, read, give_back)

        return bounded_map(self._executor, encode, self._parts(bucket), self._threads + 1)

    def _parts(self, bucket: Bucket) -> Iterator[Bucket]:
        """Divide a bucket into parts in order, of about a quarter of the maximum size."""
        size_bytes = bucket.size_bytes
        samples = sorted({sample for segment in bucket.segments for sample in _samples(segment)})
        count = min(-(-4 * size_bytes // self._max_bytes), len(samples))
        splitters = [samples[place * len(samples) // count] for place in range(1, count)]

        def divide(divider: Divider, segments: Sequence[Segment]) -> Divided:
            return divider.divide(sum(map(_SIZE, segments)), partial(move_segments, segments))

        buckets = self._partition.buckets
        parts = Buckets(count, buckets.max_bytes // 2, buckets.spill)
        new = partial(Divider, splitters, self._partition.layout)
        groups = grouped(bucket.segments, _SIZE, _GROUP_BYTES)
        fill_buckets(parts, groups, new, divide, self._executor, self._threads)
        for number, part_bytes in enumerate(parts.sizes):
            part = Bucket(bucket.ordinals, parts.segments(range(number, number + 1)), part_bytes)
            # A part as large as the whole has equal rows only.
            if part_bytes > self._max_bytes and part_bytes < size_bytes:
                yield from self._parts(part)
            elif part_bytes:
                yield part


def _neighbors(sizes: Sequence[int], max_bytes: int) -> Iterator[range]:
    """Yield ranges of buckets with up to `max_bytes`, or one bucket. Together they have all bytes."""
    start = size_bytes = 0
    for bucket, own_bytes in enumerate(sizes):
        if size_bytes and size_bytes + own_bytes > max_bytes:
            yield range(start, bucket)
            start, size_bytes = bucket, 0
        size_bytes += own_bytes
    if size_bytes:
        yield range(start, len(sizes))


def _samples(segment: Segment) -> Iterator[tuple[int, bytes]]:
    """Yield the ordinals and the first bytes of a few records."""
    content, at = segment.beginning(_SAMPLED_BYTES), 0
    for _ in range(_SAMPLES):
        if at + HEADER.size > len(content):
            break
        size, ordinal = HEADER.unpack_from(content, at)
        at += HEADER.size
        yield ordinal, bytes(content[at : min(at + size, at + _SAMPLE_BYTES)])
        at += size
