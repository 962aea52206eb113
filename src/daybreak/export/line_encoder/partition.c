/* Divides rows among buckets.
 *
 * `read_rows` reads packed rows as DuckDB returns them, `divide` the records of a bucket that is too large. After them,
 * `scatter` writes the records.
 */

#include "cells.h"

enum { UNKNOWN = 0xFFFFFFFF };

/* Records to be written by bucket. `sizes` has the bytes of each bucket, and after `scatter` its end in `output`. */
typedef struct {
  const uint8_t **records;
  uint32_t *places; /* the bucket of each record */
  uint32_t count;
  uint32_t bucket_count;
  uint32_t *sizes;
  uint8_t *output;
} Scatter;

static inline void add(Scatter *scatter, const uint8_t *record, uint32_t bucket) {
  scatter->records[scatter->count] = record;
  scatter->places[scatter->count++] = bucket;
  scatter->sizes[bucket] += (uint32_t)sizeof(Header) + header(record).bytes;
}

static inline void copy_exactly(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  if (bytes < 16) {
    while (bytes--) *to++ = *from++;
    return;
  }
  for (uint32_t at = 0; at + 16 <= bytes; at += 16) wasm_v128_store(to + at, wasm_v128_load(from + at));
  wasm_v128_store(to + bytes - 16, wasm_v128_load(from + bytes - 16));
}

/* Writes the records by bucket. */
EXPORT("scatter") void scatter(Scatter *task) {
  uint32_t start = 0;
  for (uint32_t bucket = 0; bucket < task->bucket_count; bucket++) {
    uint32_t size = task->sizes[bucket];
    task->sizes[bucket] = start;
    start += size;
  }
  for (uint32_t row = 0; row < task->count; row++) {
    const uint8_t *record = task->records[row];
    uint32_t bytes = (uint32_t)(next_record(record) - record);
    copy_exactly(task->output + task->sizes[task->places[row]], record, bytes);
    task->sizes[task->places[row]] += bytes;
  }
}

static inline uint64_t finalize(uint64_t value) {
  value = (value ^ value >> 33) * 0xff51afd7ed558ccdULL;
  value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ value >> 33;
}

/* A call of `read_rows`. Row `i` is packed[bounds[i] - bounds[0]] to packed[bounds[i + 1] - bounds[0]]. Rows without bytes
 * are skipped. */
typedef struct {
  uint32_t leader_count;
  const uint8_t *leaders;    /* identifiers by ordinal */
  const uint32_t *bucket_of; /* by ordinal */
  uint32_t *slots;           /* hash table: 1 + ordinal, or 0 */
  uint32_t slot_mask;
  Scatter *scatter;
  uint8_t *packed;
  const int32_t *bounds;
  uint32_t rows;
} Rows;

static inline uint64_t half_of(const uint8_t *identifier, uint32_t half) {
  uint64_t value;
  __builtin_memcpy(&value, identifier + 8 * half, 8);
  return value;
}

static inline uint32_t first_slot(const uint8_t *identifier) {
  return (uint32_t)finalize(half_of(identifier, 0) ^ half_of(identifier, 1));
}

static inline uint32_t ordinal_of(const Rows *task, const uint8_t *identifier) {
  for (uint32_t slot = first_slot(identifier);; slot++) {
    uint32_t ordinal = task->slots[slot & task->slot_mask] - 1;
    if (ordinal == UNKNOWN) return UNKNOWN;
    const uint8_t *leader = task->leaders + IDENTIFIER_BYTES * ordinal;
    if (half_of(leader, 0) == half_of(identifier, 0) && half_of(leader, 1) == half_of(identifier, 1)) return ordinal;
  }
}

/* Fills the empty hash table. */
EXPORT("number_leaders") void number_leaders(const Rows *task) {
  for (uint32_t ordinal = 0; ordinal < task->leader_count; ordinal++) {
    uint32_t slot = first_slot(task->leaders + IDENTIFIER_BYTES * ordinal);
    while (task->slots[slot & task->slot_mask]) slot++;
    task->slots[slot & task->slot_mask] = ordinal + 1;
  }
}

/* Adds the rows of known Leaders to `scatter`. Rows become records in place: the header replaces the end of LEADER_ID. */
EXPORT("read_rows") void read_rows(const Rows *task) {
  for (uint32_t row = 0; row < task->rows; row++) {
    uint8_t *from = task->packed + (task->bounds[row] - task->bounds[0]);
    const uint8_t *end = task->packed + (task->bounds[row + 1] - task->bounds[0]);
    if (from == end) continue;
    uint32_t ordinal = *from++ == PRESENT ? ordinal_of(task, from) : UNKNOWN;
    if (ordinal == UNKNOWN) continue;
    from += IDENTIFIER_BYTES;
    Header of = {(uint32_t)(end - from), ordinal};
    from -= sizeof of;
    __builtin_memcpy(from, &of, sizeof of);
    add(task->scatter, from, task->bucket_of[ordinal]);
  }
}

/* A call of `divide`: bucket `i` receives the records between `from` and `end` from splitter `i` - 1 on that are before
 * splitter `i`. Splitters are sorted records, one less than buckets. */
typedef struct {
  const uint8_t *from;
  const uint8_t *end;
  const uint8_t *const *splitters;
  Scatter *scatter;
} Division;

static inline int is_before(const uint8_t *one, const uint8_t *other) {
  Header a = header(one), b = header(other);
  if (a.ordinal != b.ordinal) return a.ordinal < b.ordinal;
  return compare_cells(cells_of(one), cells_of(other), a.bytes < b.bytes ? a.bytes : b.bytes) < 0;
}

EXPORT("divide") void divide(const Division *task) {
  for (const uint8_t *record = task->from; record < task->end; record = next_record(record)) {
    uint32_t low = 0, high = task->scatter->bucket_count - 1;
    while (low < high) {
      uint32_t middle = (low + high) / 2;
      if (is_before(record, task->splitters[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    add(task->scatter, record, low);
  }
}
