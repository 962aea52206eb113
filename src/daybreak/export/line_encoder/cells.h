/* Packed rows and records, as all parts of the row kernel read them.
 *
 * A packed row is the result of DuckDB's `create_sort_key(..., 'ASC NULLS FIRST', ...)` over its columns: cells in
 * sequence, each a byte 1 for NULL, or a byte 2 and its value. A text is its bytes, each increased by one, and a zero.
 * An identifier is its sixteen bytes. Whole numbers, dates (days since 1970) and timestamps (microseconds since 1970)
 * are big-endian with the sign bit inverted. A boolean is one byte. The order of rows is that of their bytes.
 *
 * A record is a packed row without its first cell, LEADER_ID, after a header: its size in bytes and the ordinal of its
 * Leader. Cells are self-delimiting, so no packed row is the beginning of another one.
 *
 * Memory is read and written sixteen bytes at a time, so at least sixteen bytes of padding follow everything.
 */

#ifndef CELLS_H
#define CELLS_H

#include <stdint.h>
#include <wasm_simd128.h>

#define EXPORT(name) __attribute__((export_name(name)))

enum { TEXT, IDENTIFIER, INTEGER, BOOLEAN, DATE, TIMESTAMP };
enum { PRESENT = 2 };
enum { IDENTIFIER_BYTES = 16 };
/* Result of a function for a row with another layout. */
enum { MALFORMED_ROW = 0xFFFFFFFF };

static const uint8_t VALUE_BYTES[] = {0, IDENTIFIER_BYTES, 8, 1, 4, 8};

typedef struct {
  uint32_t bytes;
  uint32_t ordinal;
} Header;

/* A record in sorted order. */
typedef struct {
  uint64_t prefix; /* the first eight bytes of the cells, big-endian */
  const uint8_t *record;
} Entry;

static inline Header header(const uint8_t *record) {
  Header read;
  __builtin_memcpy(&read, record, sizeof read);
  return read;
}

static inline const uint8_t *cells_of(const uint8_t *record) { return record + sizeof(Header); }

static inline const uint8_t *next_record(const uint8_t *record) { return cells_of(record) + header(record).bytes; }

/* Returns the terminator of a text. */
static inline const uint8_t *text_end(const uint8_t *from) {
  for (;; from += 16) {
    uint32_t zeros = wasm_i8x16_bitmask(wasm_i8x16_eq(wasm_v128_load(from), wasm_i8x16_splat(0)));
    if (zeros) return from + __builtin_ctz(zeros);
  }
}

/* Returns the end of a cell of this kind. */
static inline const uint8_t *cell_end(const uint8_t *from, uint32_t kind) {
  if (*from++ != PRESENT) return from;
  return kind == TEXT ? text_end(from) + 1 : from + VALUE_BYTES[kind];
}

static inline uint64_t eight_big_endian(const uint8_t *from) {
  uint64_t value;
  __builtin_memcpy(&value, from, sizeof value);
  return __builtin_bswap64(value);
}

/* Compares two different packed rows. Returns a negative number if the first one comes first; 0 if they are equal. */
static inline int compare_cells(const uint8_t *one, const uint8_t *other, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 8) {
    uint64_t a = eight_big_endian(one + at), b = eight_big_endian(other + at);
    if (a == b) continue;
    /* Bytes after the end differ only if all before them are equal, which is true of equal rows only. */
    if (bytes - at < 8 && (a ^ b) >> (64 - 8 * (bytes - at)) == 0) return 0;
    return a < b ? -1 : 1;
  }
  return 0;
}

#endif
