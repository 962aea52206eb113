/* Sorts the records of a bucket by Leader, and then by their bytes. */

#include "cells.h"

/* A call of `sort`. Leaders are those from `first_ordinal` on. `counts` receives the rows of each, and `entries`
 * the sorted records. `entries` and `spare` have room for every record. */
typedef struct {
  const uint8_t *from;
  const uint8_t *end;
  uint32_t first_ordinal;
  uint32_t leaders;
  uint32_t *counts;
  Entry *entries;
  Entry *spare;
} Sort;

static inline int entry_before(const Entry *one, const Entry *other) {
  if (one->prefix != other->prefix) return one->prefix < other->prefix;
  uint32_t a = header(one->record).bytes, b = header(other->record).bytes;
  return compare_cells(cells_of(one->record), cells_of(other->record), a < b ? a : b) < 0;
}

enum { RUN = 12, MAX_SLOT_BITS = 10 };

static void insertion_sort(Entry *entries, uint32_t count) {
  for (uint32_t next = 1; next < count; next++) {
    Entry moved = entries[next];
    uint32_t at = next;
    for (; at && entry_before(&moved, &entries[at - 1]); at--) entries[at] = entries[at - 1];
    entries[at] = moved;
  }
}

/* Merge sort of runs, bottom up. The result is in `entries`. */
static void sort_entries(Entry *entries, Entry *spare, uint32_t count) {
  for (uint32_t start = 0; start < count; start += RUN)
    insertion_sort(entries + start, count - start < RUN ? count - start : RUN);
  Entry *from = entries, *to = spare;
  for (uint32_t width = RUN; width < count; width *= 2) {
    for (uint32_t start = 0; start < count; start += 2 * width) {
      uint32_t left = start, middle = count - start < width ? count : start + width;
      uint32_t right = middle, end = count - middle < width ? count : middle + width;
      for (uint32_t at = start; at < end; at++) {
        int take_left = left < middle && (right >= end || !entry_before(&from[right], &from[left]));
        to[at] = take_left ? from[left++] : from[right++];
      }
    }
    Entry *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != entries) __builtin_memcpy(entries, from, count * sizeof(Entry));
}

/* Sorts the entries of a Leader from `from` to `to`, and overwrites `from`. A slot receives the entries whose prefix is in
 * its part of the range of prefixes: about one if they are spread evenly, as identifiers are. */
static void sort_leader(Entry *from, Entry *to, uint32_t count) {
  uint64_t least = UINT64_MAX, most = 0;
  for (uint32_t at = 0; at < count; at++) {
    if (from[at].prefix < least) least = from[at].prefix;
    if (from[at].prefix > most) most = from[at].prefix;
  }
  uint32_t range_bits = 64 - (uint32_t)__builtin_clzll((most - least) | 1);
  uint32_t slot_bits = 32 - (uint32_t)__builtin_clz(count);
  if (slot_bits > MAX_SLOT_BITS) slot_bits = MAX_SLOT_BITS;
  uint32_t shift = range_bits > slot_bits ? range_bits - slot_bits : 0, slots = (uint32_t)((most - least) >> shift) + 1;
  uint32_t ends[1 << MAX_SLOT_BITS], total = 0, start = 0;
  for (uint32_t slot = 0; slot < slots; slot++) ends[slot] = 0;
  for (uint32_t at = 0; at < count; at++) ends[(from[at].prefix - least) >> shift]++;
  for (uint32_t slot = 0; slot < slots; slot++) {
    uint32_t own = ends[slot];
    ends[slot] = total;
    total += own;
  }
  for (uint32_t at = 0; at < count; at++) to[ends[(from[at].prefix - least) >> shift]++] = from[at];
  for (uint32_t slot = 0; slot < slots; slot++) {
    sort_entries(to + start, from + start, ends[slot] - start);
    start = ends[slot];
  }
}

/* Returns the number of sorted records. */
EXPORT("sort") uint32_t sort(const Sort *task) {
  uint32_t total = 0;
  for (uint32_t leader = 0; leader < task->leaders; leader++) task->counts[leader] = 0;
  for (const uint8_t *record = task->from; record < task->end; record = next_record(record)) {
    task->counts[header(record).ordinal - task->first_ordinal]++;
  }
  /* From here on, `counts` has the next place of each Leader, and in the end its last one. */
  for (uint32_t leader = 0; leader < task->leaders; leader++) {
    uint32_t count = task->counts[leader];
    task->counts[leader] = total;
    total += count;
  }
  for (const uint8_t *record = task->from; record < task->end; record = next_record(record)) {
    uint32_t ordinal = header(record).ordinal;
    task->spare[task->counts[ordinal - task->first_ordinal]++] = (Entry){eight_big_endian(cells_of(record)), record};
  }
  uint32_t start = 0;
  for (uint32_t leader = 0; leader < task->leaders; leader++) {
    uint32_t end = task->counts[leader];
    if (start < end) sort_leader(task->spare + start, task->entries + start, end - start);
    task->counts[leader] = end - start;
    start = end;
  }
  return total;
}
