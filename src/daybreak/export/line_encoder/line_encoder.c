/* Encodes sorted records as CSV records and JSON records.
 *
 * The bytes are those that line_sql.py makes in SQL; tests compare the two. The host (encoder.py) copies records and
 * constants into memory and calls `encode`.
 */

#include "cells.h"
#include "json_text.h"

/* Maximum length of a cell that is not a text, including quotes. */
enum { LONGEST_FIXED = 64 };
/* Places of a column that follows the previous one in the record, and of LEADER_ID. Others are places in the key. */
enum { NEXT_CELL = 0xFFFFFFFF, LEADER_ID = 0xFFFFFFFE };
enum { MAX_KEY_CELLS = 16 };

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

static inline uint8_t *copy(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 16) wasm_v128_store(to + at, wasm_v128_load(from + at));
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

/* Writes sixteen bytes as 8-4-4-4-12 hexadecimal digits. Overwrites twelve bytes after them. */
static inline uint8_t *identifier(uint8_t *to, const uint8_t *from) {
  const v128_t letters =
      wasm_i8x16_make('0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f');
  const v128_t dash = wasm_i8x16_splat('-');
  v128_t bytes = wasm_v128_load(from);
  v128_t high = wasm_i8x16_swizzle(letters, wasm_u8x16_shr(bytes, 4));
  v128_t low = wasm_i8x16_swizzle(letters, wasm_v128_and(bytes, wasm_i8x16_splat(15)));
  v128_t first = wasm_i8x16_shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  v128_t last = wasm_i8x16_shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  v128_t middle = wasm_i8x16_shuffle(first, last, 14, 15, 15, 16, 17, 18, 19, 19, 20, 21, 22, 23, 24, 25, 26, 27);
  wasm_v128_store(to, wasm_i8x16_shuffle(first, dash, 0, 1, 2, 3, 4, 5, 6, 7, 16, 8, 9, 10, 11, 16, 12, 13));
  wasm_v128_store(
      to + 16, wasm_i8x16_shuffle(middle, dash, 0, 1, 16, 3, 4, 5, 6, 16, 8, 9, 10, 11, 12, 13, 14, 15));
  wasm_v128_store(to + 32, wasm_i8x16_shuffle(last, last, 12, 13, 14, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  return to + 36;
}

static const char PAIRS[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Writes a number with an even width. */
static inline uint8_t *digits(uint8_t *to, uint32_t value, uint32_t width) {
  for (uint32_t place = width; place > 0; value /= 100) __builtin_memcpy(to + (place -= 2), PAIRS + 2 * (value % 100), 2);
  return to + width;
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

static uint8_t *word(uint8_t *to, const char *text) {
  while (*text) *to++ = *text++;
  return to;
}

typedef struct {
  int64_t year;
  uint32_t month, day;
} Civil;

/* Converts days since 1970 to the proleptic Gregorian calendar.
 * https://howardhinnant.github.io/date_algorithms.html#civil_from_days */
static inline Civil civil(int64_t days) {
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  uint32_t of_era = (uint32_t)(days - era * 146097);
  uint32_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  uint32_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  uint32_t shifted = (5 * of_year + 2) / 153;
  Civil civil_date;
  civil_date.day = of_year - (153 * shifted + 2) / 5 + 1;
  civil_date.month = shifted < 10 ? shifted + 3 : shifted - 9;
  civil_date.year = (int64_t)year_of_era + era * 400 + (civil_date.month <= 2);
  return civil_date;
}

static inline uint8_t *month_and_day(uint8_t *to, Civil on) {
  *to++ = '-';
  to = digits(to, on.month, 2);
  *to++ = '-';
  return digits(to, on.day, 2);
}

static uint8_t *date(uint8_t *to, int32_t days) {
  if (days == INT32_MAX) return word(to, "infinity");
  if (days == -INT32_MAX) return word(to, "-infinity");
  Civil on = civil(days);
  int before_christ = on.year <= 0;
  int64_t year = before_christ ? 1 - on.year : on.year;
  to = year <= 9999 ? digits(to, (uint32_t)year, 4) : unsigned_number(to, (uint64_t)year);
  to = month_and_day(to, on);
  return before_christ ? word(to, " (BC)") : to;
}

static const int64_t DAY = 86400000000LL;

static uint8_t *timestamp(uint8_t *to, int64_t micros) {
  if (micros == INT64_MAX) return word(to, "infinity");
  if (micros == -INT64_MAX) return word(to, "-infinity");
  int64_t days = micros / DAY;
  int64_t rest = micros % DAY;
  if (rest < 0) {
    rest += DAY;
    days--;
  }
  Civil on = civil(days);
  to = on.year >= 0 && on.year <= 9999 ? digits(to, (uint32_t)on.year, 4) : number(to, on.year);
  to = month_and_day(to, on);
  uint32_t seconds = (uint32_t)(rest / 1000000);
  *to++ = 'T';
  to = digits(to, seconds / 3600, 2);
  *to++ = ':';
  to = digits(to, seconds / 60 % 60, 2);
  *to++ = ':';
  to = digits(to, seconds % 60, 2);
  *to++ = '.';
  to = digits(to, (uint32_t)(rest % 1000000), 6);
  *to++ = 'Z';
  return to;
}

static inline Out put_both(Out out, const uint8_t *cell, uint32_t bytes, int csv_quotes, int json_quotes) {
  if (csv_quotes) *out.csv++ = '"';
  out.csv = copy(out.csv, cell, bytes);
  if (csv_quotes) *out.csv++ = '"';
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
        const uint8_t *leader = task->leaders + IDENTIFIER_BYTES * of.ordinal;
        out = put_both(out, cell, (uint32_t)(identifier(cell, leader) - cell), 1, 1);
        continue;
      }
      const uint8_t *from = in_key ? key[column->place] : next;
      if (*from++ != PRESENT) {
        out.json = copy(out.json, (const uint8_t *)"null            ", 4);
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
          out = put_both(out, cell, (uint32_t)(identifier(cell, from) - cell), 1, 1);
          break;
        case INTEGER:
          out = put_both(out, cell, (uint32_t)(number(cell, eight_bytes(from)) - cell), 0, 0);
          break;
        case BOOLEAN:
          if (*from)
            out = put_both(out, (const uint8_t *)"true            ", 4, 0, 0);
          else
            out = put_both(out, (const uint8_t *)"false           ", 5, 0, 0);
          break;
        case DATE:
          out = put_both(out, cell, (uint32_t)(date(cell, four_bytes(from)) - cell), 0, 1);
          break;
        case TIMESTAMP:
          out = put_both(out, cell, (uint32_t)(timestamp(cell, eight_bytes(from)) - cell), 0, 1);
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
