/* Encodes sorted records as CSV records and JSON records.
 *
 * The bytes are those that line_sql.py makes in SQL; tests compare the two. The host (encoder.py) copies records and
 * constants into memory and calls `encode`.
 */

#include "cells.h"
#include "json_text.h"

/* Most bytes that are written for a cell that is not a text, and the longest piece that `copy` copies. */
enum { LONGEST_FIXED = 64, LONGEST_PIECE = 32 };
/* Places of a column that follows the previous one in the record, and of LEADER_ID. Others are places in the key. */
enum { NEXT_CELL = 0xFFFFFFFF, LEADER_ID = 0xFFFFFFFE };
enum { MAX_KEY_CELLS = 16 };

static const uint8_t NULL_WORD[LONGEST_PIECE] = "null";
static const uint8_t TRUE_WORD[LONGEST_PIECE] = "true", FALSE_WORD[LONGEST_PIECE] = "false";

typedef struct {
  uint32_t kind;
  uint32_t place;
  const uint8_t *csv_before;  /* bytes before the cell: a comma or nothing */
  uint32_t csv_before_bytes;
  const uint8_t *json_before; /* bytes before the value: separators and the key */
  uint32_t json_before_bytes;
} Column;

typedef struct {
  uint8_t *csv;
  uint8_t *json;
} Out;

typedef struct {
  uint64_t csv;
  uint64_t json;
} Size;

/* Copies LONGEST_PIECE bytes, however short the piece is: a branch on its length costs more. */
static inline uint8_t *copy(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  v128_t start = wasm_v128_load(from), end = wasm_v128_load(from + 16);
  wasm_v128_store(to, start);
  wasm_v128_store(to + 16, end);
  return to + bytes;
}

typedef struct {
  Out out;
  const uint8_t *from;
} Step;

/* Writes a text to both records, in quotes: sixteen bytes at a time, and bytes that need escaping one at a time. */
static inline Step put_text(Out out, const uint8_t *from) {
  *out.csv++ = '"';
  *out.json++ = '"';
  for (;;) {
    v128_t packed = wasm_v128_load(from);
    v128_t piece = wasm_i8x16_sub(packed, wasm_i8x16_splat(1));
    /* Below 0x21 as packed: the end of the text, and control characters, which JSON escapes. */
    v128_t odd = wasm_v128_or(
        wasm_v128_or(wasm_i8x16_eq(piece, wasm_i8x16_splat('"')), wasm_i8x16_eq(piece, wasm_i8x16_splat('\\'))),
        wasm_u8x16_lt(packed, wasm_u8x16_splat(0x21)));
    uint32_t mask = wasm_i8x16_bitmask(odd);
    wasm_v128_store(out.csv, piece);
    wasm_v128_store(out.json, piece);
    uint32_t clean = mask ? __builtin_ctz(mask) : 16;
    out.csv += clean;
    out.json += clean;
    from += clean;
    if (!mask) continue;
    if (!*from) break;
    uint8_t byte = *from++ - 1;
    *out.csv++ = byte;
    if (byte == '"') *out.csv++ = '"';
    out.json = json_byte(out.json, byte);
  }
  *out.csv++ = '"';
  *out.json++ = '"';
  return (Step){out, from + 1};
}

/* Writes sixteen bytes to both records as 8-4-4-4-12 hexadecimal digits in quotes. */
static inline Out put_identifier(Out out, const uint8_t *from) {
  const v128_t letters =
      wasm_i8x16_make('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f');
  const v128_t dash = wasm_i8x16_splat('-'), quote = wasm_i8x16_splat('"');
  v128_t bytes = wasm_v128_load(from);
  v128_t high = wasm_i8x16_swizzle(letters, wasm_u8x16_shr(bytes, 4));
  v128_t low = wasm_i8x16_swizzle(letters, wasm_v128_and(bytes, wasm_i8x16_splat(15)));
  v128_t first = wasm_i8x16_shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  v128_t last = wasm_i8x16_shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  v128_t middle = wasm_i8x16_shuffle(first, last, 14, 15, 15, 16, 17, 18, 19, 19, 20, 21, 22, 23, 24, 25, 26, 27);
  const v128_t text[] = {
      wasm_i8x16_shuffle(first, dash, 0, 1, 2, 3, 4, 5, 6, 7, 16, 8, 9, 10, 11, 16, 12, 13),
      wasm_i8x16_shuffle(middle, dash, 0, 1, 16, 3, 4, 5, 6, 16, 8, 9, 10, 11, 12, 13, 14, 15),
      wasm_i8x16_shuffle(last, quote, 12, 13, 14, 15, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
  };
  *out.csv++ = '"';
  *out.json++ = '"';
  for (uint32_t piece = 0; piece < 3; piece++) {
    wasm_v128_store(out.csv + 16 * piece, text[piece]);
    wasm_v128_store(out.json + 16 * piece, text[piece]);
  }
  return (Out){out.csv + 37, out.json + 37};
}

static uint8_t *unsigned_number(uint8_t *to, uint64_t value) {
  uint8_t reversed[20];
  uint32_t count = 0;
  do {
    reversed[count++] = '0' + value % 10;
    value /= 10;
  } while (value);
  while (count) *to++ = reversed[--count];
  return to;
}

static uint8_t *number(uint8_t *to, int64_t value) {
  if (value >= 0) return unsigned_number(to, (uint64_t)value);
  *to++ = '-';
  return unsigned_number(to, 0 - (uint64_t)value);
}

/* Returns two decimal digits for each of eight numbers below 100. */
static inline v128_t two_digits(v128_t numbers) {
  v128_t tens = wasm_u16x8_shr(wasm_i16x8_mul(numbers, wasm_i16x8_splat(103)), 10);
  v128_t ones = wasm_i16x8_sub(numbers, wasm_i16x8_mul(tens, wasm_i16x8_splat(10)));
  return wasm_v128_or(wasm_v128_or(tens, wasm_i16x8_shl(ones, 8)), wasm_i8x16_splat('0'));
}

/* Days from 1 March of the year 0, with which calendar calculations begin, to 1970. */
enum { EPOCH_DAYS = 719468 };

/* Writes a time as YYYY-MM-DDThh:mm:ss.ffffffZ. The calendar is the proleptic Gregorian one. Years begin in March until
 * the end: Neri and Schneider, "Euclidean affine functions and their application to calendar algorithms", 2022. */
static inline void put_time(uint8_t *to, uint32_t days, uint32_t seconds, uint32_t micros) {
  uint32_t quarters = 4 * days + 3, century = quarters / 146097;
  uint64_t of_century = 2939745ULL * (quarters % 146097 | 3); /* years, as a fixed-point number */
  uint32_t of_year = (uint32_t)of_century / 2939745 / 4;
  uint32_t month = 2141 * of_year + 197913, is_next_year = of_year >= 306;
  uint32_t year = 100 * century + (uint32_t)(of_century >> 32) + is_next_year;
  uint32_t minutes = seconds / 60;
  v128_t start = two_digits(wasm_u16x8_make(
      year / 100, year % 100, (month >> 16) - 12 * is_next_year, (month & 0xFFFF) / 2141 + 1, minutes / 60,
      minutes % 60, 0, 0));
  v128_t end = two_digits(wasm_u16x8_make(
      seconds % 60, micros / 10000, micros / 100 % 100, micros % 100, 0, 0, 0, 0));
  const v128_t marks = wasm_i8x16_make('-', 'T', ':', '.', 'Z', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  wasm_v128_store(to, wasm_i8x16_shuffle(start, marks, 0, 1, 2, 3, 16, 4, 5, 16, 6, 7, 17, 8, 9, 18, 10, 11));
  wasm_v128_store(to + 16, wasm_i8x16_shuffle(end, marks, 18, 0, 1, 19, 2, 3, 4, 5, 6, 7, 20, 0, 0, 0, 0, 0));
}

static inline uint8_t *date(uint8_t *to, int32_t days) {
  put_time(to, (uint32_t)(days + EPOCH_DAYS), 0, 0);
  return to + 10;
}

static inline uint8_t *timestamp(uint8_t *to, int64_t micros) {
  const uint64_t day = 86400000000ULL, since = (uint64_t)micros + EPOCH_DAYS * day, rest = since % day;
  put_time(to, (uint32_t)(since / day), (uint32_t)(rest / 1000000), (uint32_t)(rest % 1000000));
  return to + 27;
}

/* Writes a cell to both records. */
static inline Out put_both(Out out, const uint8_t *cell, uint32_t bytes, int json_quotes) {
  out.csv = copy(out.csv, cell, bytes);
  if (json_quotes) *out.json++ = '"';
  out.json = copy(out.json, cell, bytes);
  if (json_quotes) *out.json++ = '"';
  return out;
}

/* Reads eight bytes, big-endian with the sign bit inverted. */
static inline int64_t eight_bytes(const uint8_t *from) {
  uint64_t value;
  __builtin_memcpy(&value, from, 8);
  return (int64_t)(__builtin_bswap64(value) ^ (1ULL << 63));
}

static inline int32_t four_bytes(const uint8_t *from) {
  uint32_t value;
  __builtin_memcpy(&value, from, 4);
  return (int32_t)(__builtin_bswap32(value) ^ (1U << 31));
}

/* Returns the bytes of a record's texts in each line. */
static Size size_of_texts(const uint32_t *kinds, uint32_t cell_count, const uint8_t *from) {
  Size size = {0, 0};
  for (uint32_t c = 0; c < cell_count; c++) {
    if (*from++ != PRESENT) continue;
    from += VALUE_BYTES[kinds[c]];
    if (kinds[c] != TEXT) continue;
    for (; *from; from++) {
      uint8_t scratch[8];
      uint8_t byte = *from - 1;
      size.csv += byte == '"' ? 2 : 1;
      size.json += (uint64_t)(json_byte(scratch, byte) - scratch);
    }
    from++;
  }
  return size;
}

/* A call of `encode`. `columns` are in the order of the file, `kinds` are those of the cells of a record, whose first
 * `key_count` cells are the key. `entries` are the sorted records, as sort.c writes them. */
typedef struct {
  const Column *columns;
  uint32_t column_count;
  const uint32_t *kinds;
  uint32_t cell_count;
  uint32_t key_count;
  const uint8_t *leaders; /* identifiers by ordinal */
  const Entry *entries;
  uint32_t row;
  uint32_t rows;
  uint8_t *csv;
  uint8_t *json;
  uint32_t capacity;
  uint32_t *csv_bounds;
  uint32_t *json_bounds;
} Task;

/* Whether a row fits into the remaining bytes: tested by its maximum length first, then by its exact length. */
static inline int fits(const Task *task, const uint8_t *from, uint32_t bytes, uint64_t fixed, Size left) {
  uint64_t most = fixed + 6 * (uint64_t)bytes; /* A byte of text takes at most six bytes in JSON. */
  if (most <= left.csv && most <= left.json) return 1;
  Size size = size_of_texts(task->kinds, task->cell_count, from);
  return fixed + size.csv <= left.csv && fixed + size.json <= left.json;
}

/* Encodes records from `row` to `rows`, or until one does not fit into the `capacity` bytes of an output. Returns the
 * first row that is not encoded, or MALFORMED_ROW. Writes the offsets of the lines, one more than rows, to `csv_bounds`
 * and `json_bounds`. */
EXPORT("encode") uint32_t encode(const Task *task) {
  const Column *columns = task->columns;
  const uint32_t column_count = task->column_count, rows = task->rows, capacity = task->capacity;
  const uint32_t key_count = task->key_count;
  const uint32_t *kinds = task->kinds;
  uint8_t *csv = task->csv, *json = task->json;
  uint32_t *csv_bounds = task->csv_bounds, *json_bounds = task->json_bounds, row = task->row;
  Out out = {csv, json};
  uint8_t cell[LONGEST_FIXED];
  const uint8_t *key[MAX_KEY_CELLS];
  uint64_t fixed = 2;
  for (uint32_t c = 0; c < column_count; c++)
    fixed += LONGEST_FIXED + columns[c].csv_before_bytes + columns[c].json_before_bytes;
  *csv_bounds++ = 0;
  *json_bounds++ = 0;
  for (; row < rows; row++) {
    const uint8_t *record = task->entries[row].record;
    const Header of = header(record);
    const uint8_t *next = cells_of(record), *end = next + of.bytes;
    Size left = {capacity - (uint32_t)(out.csv - csv), capacity - (uint32_t)(out.json - json)};
    if (!fits(task, next, of.bytes, fixed, left)) break;
    for (uint32_t c = 0; c < key_count; c++) {
      key[c] = next;
      next = cell_end(next, kinds[c]);
    }
    for (uint32_t c = 0; c < column_count; c++) {
      const Column *column = &columns[c];
      const int in_key = column->place != NEXT_CELL;
      out.csv = copy(out.csv, column->csv_before, column->csv_before_bytes);
      out.json = copy(out.json, column->json_before, column->json_before_bytes);
      if (column->place == LEADER_ID) {
        out = put_identifier(out, task->leaders + IDENTIFIER_BYTES * of.ordinal);
        continue;
      }
      const uint8_t *from = in_key ? key[column->place] : next;
      if (*from++ != PRESENT) {
        out.json = copy(out.json, NULL_WORD, 4);
        if (!in_key) next = from;
        continue;
      }
      switch (column->kind) {
        case TEXT: {
          Step step = put_text(out, from);
          out = step.out;
          from = step.from;
          break;
        }
        case IDENTIFIER:
          out = put_identifier(out, from);
          break;
        case INTEGER:
          out = put_both(out, cell, (uint32_t)(number(cell, eight_bytes(from)) - cell), 0);
          break;
        case BOOLEAN:
          if (*from)
            out = put_both(out, TRUE_WORD, 4, 0);
          else
            out = put_both(out, FALSE_WORD, 5, 0);
          break;
        case DATE:
          out = put_both(out, cell, (uint32_t)(date(cell, four_bytes(from)) - cell), 1);
          break;
        case TIMESTAMP:
          out = put_both(out, cell, (uint32_t)(timestamp(cell, eight_bytes(from)) - cell), 1);
          break;
      }
      if (!in_key) next = from + VALUE_BYTES[column->kind];
    }
    if (next != end) return MALFORMED_ROW;
    *out.csv++ = '\n';
    *out.json++ = '}';
    *csv_bounds++ = (uint32_t)(out.csv - csv);
    *json_bounds++ = (uint32_t)(out.json - json);
  }
  return row;
}
