/* Rows of an Arrow batch become CSV records and JSON records.
 *
 * Compiled to WebAssembly by tools/line-encoder, so that one file runs on every machine and no pointer
 * leaves its memory. The bytes are those that the SQL of lines.py makes; tests hold the two to each other.
 *
 * The host (line_encoder.py) lays a batch's buffers into memory, describes each column, and calls `encode`.
 * Texts are copied sixteen bytes at a time, so every buffer is followed by at least sixteen spare bytes.
 */

#include <stdint.h>
#include <wasm_simd128.h>

enum { TEXT, IDENTIFIER, INTEGER, BOOLEAN, DATE, TIMESTAMP };
/* No cell but a text is longer than this, quotes and all. */
enum { LONGEST_FIXED = 64 };

typedef struct {
  uint32_t kind;
  uint32_t first_bit;         /* where the first row's bit is in its byte, in `validity` and BOOLEAN `values` */
  const uint8_t *validity;    /* a bit a row, or 0: no NULLs */
  const void *values;         /* the values; of texts int32 bounds, one more than rows */
  const uint8_t *texts;       /* the bytes that bounds count from */
  const uint8_t *csv_before;  /* what stands before the cell: a comma or nothing */
  uint32_t csv_before_bytes;
  const uint8_t *json_before; /* separators and the key */
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

static const char HEX[] = "0123456789ABCDEF";

/* One byte of a JSON string. */
static inline uint8_t *json_byte(uint8_t *to, uint8_t byte) {
  uint8_t letter = 0;
  switch (byte) {
    case '"': letter = '"'; break;
    case '\\': letter = '\\'; break;
    case '\b': letter = 'b'; break;
    case '\f': letter = 'f'; break;
    case '\n': letter = 'n'; break;
    case '\r': letter = 'r'; break;
    case '\t': letter = 't'; break;
    default:
      if (byte >= 0x20) {
        *to++ = byte;
        return to;
      }
      *to++ = '\\'; *to++ = 'u'; *to++ = '0'; *to++ = '0';
      *to++ = HEX[byte >> 4]; *to++ = HEX[byte & 15];
      return to;
  }
  *to++ = '\\';
  *to++ = letter;
  return to;
}

/* A text in both records, between quotes: sixteen bytes at a time, and a byte that one of them escapes by itself. */
static inline Out put_text(Out out, const uint8_t *from, uint32_t bytes) {
  *out.csv++ = '"';
  *out.json++ = '"';
  uint32_t at = 0;
  while (at < bytes) {
    v128_t piece = wasm_v128_load(from + at);
    v128_t odd = wasm_v128_or(
        wasm_v128_or(wasm_i8x16_eq(piece, wasm_i8x16_splat('"')), wasm_i8x16_eq(piece, wasm_i8x16_splat('\\'))),
        wasm_u8x16_lt(piece, wasm_u8x16_splat(0x20)));
    uint32_t left = bytes - at;
    uint32_t mask = wasm_i8x16_bitmask(odd);
    if (left < 16) mask &= (1u << left) - 1;
    uint32_t clean = left < 16 ? left : 16;
    if (__builtin_expect(mask, 0)) clean = __builtin_ctz(mask);
    wasm_v128_store(out.csv, piece);
    wasm_v128_store(out.json, piece);
    out.csv += clean;
    out.json += clean;
    at += clean;
    if (__builtin_expect(mask, 0)) {
      uint8_t byte = from[at++];
      *out.csv++ = byte;
      if (byte == '"') *out.csv++ = '"';
      out.json = json_byte(out.json, byte);
    }
  }
  *out.csv++ = '"';
  *out.json++ = '"';
  return out;
}

static inline uint8_t *digits(uint8_t *to, uint32_t value, uint32_t width) {
  for (uint32_t place = width; place-- > 0; value /= 10) to[place] = '0' + value % 10;
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

/* Days since 1970 as a date of the proleptic Gregorian calendar (by Howard Hinnant's civil_from_days). */
static inline Civil civil(int64_t days) {
  days += 719468;
  int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  uint32_t of_era = (uint32_t)(days - era * 146097);
  uint32_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  uint32_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  uint32_t shifted = (5 * of_year + 2) / 153;
  Civil found;
  found.day = of_year - (153 * shifted + 2) / 5 + 1;
  found.month = shifted < 10 ? shifted + 3 : shifted - 9;
  found.year = (int64_t)year_of_era + era * 400 + (found.month <= 2);
  return found;
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

static inline int bit(const uint8_t *bits, uint32_t at) { return bits[at >> 3] >> (at & 7) & 1; }

static inline const int32_t *bounds_of(const Column *column, uint32_t row) {
  return (const int32_t *)column->values + row;
}

/* The bytes that a row's texts take in each record. */
static Size size_of_texts(const Column *columns, uint32_t column_count, uint32_t row) {
  Size size = {0, 0};
  for (uint32_t c = 0; c < column_count; c++) {
    if (columns[c].kind > IDENTIFIER) continue;
    const int32_t *bounds = bounds_of(&columns[c], row);
    for (int32_t at = bounds[0]; at < bounds[1]; at++) {
      uint8_t scratch[8];
      uint8_t byte = columns[c].texts[at];
      size.csv += byte == '"' ? 2 : 1;
      size.json += (uint64_t)(json_byte(scratch, byte) - scratch);
    }
  }
  return size;
}

/* Whether a row certainly fits into what is left: first by the longest it could be, then by what it is. */
static inline int fits(const Column *columns, uint32_t column_count, uint32_t row, uint64_t fixed, Size left) {
  uint64_t texts = 0;
  for (uint32_t c = 0; c < column_count; c++) {
    if (columns[c].kind > IDENTIFIER) continue;
    const int32_t *bounds = bounds_of(&columns[c], row);
    texts += (uint32_t)(bounds[1] - bounds[0]);
  }
  uint64_t most = fixed + 6 * texts; /* A byte of text takes at most six in JSON. */
  if (most <= left.csv && most <= left.json) return 1;
  Size size = size_of_texts(columns, column_count, row);
  return fixed + size.csv <= left.csv && fixed + size.json <= left.json;
}

/* Encodes rows from `row` on until `rows` or until the next might not fit into the `room` bytes of an output:
 * the row it got to. The bounds of the records go to `csv_bounds` and `json_bounds`, one more than rows, counted
 * from where the outputs begin. */
__attribute__((export_name("encode"))) uint32_t encode(
    const Column *columns, uint32_t column_count, uint32_t row, uint32_t rows, uint8_t *csv, uint8_t *json,
    uint32_t room, uint32_t *csv_bounds, uint32_t *json_bounds) {
  Out out = {csv, json};
  uint8_t cell[LONGEST_FIXED];
  uint64_t fixed = 2;
  for (uint32_t c = 0; c < column_count; c++)
    fixed += LONGEST_FIXED + columns[c].csv_before_bytes + columns[c].json_before_bytes;
  *csv_bounds++ = 0;
  *json_bounds++ = 0;
  for (; row < rows; row++) {
    Size left = {room - (uint32_t)(out.csv - csv), room - (uint32_t)(out.json - json)};
    if (!fits(columns, column_count, row, fixed, left)) break;
    for (uint32_t c = 0; c < column_count; c++) {
      const Column *column = &columns[c];
      out.csv = copy(out.csv, column->csv_before, column->csv_before_bytes);
      out.json = copy(out.json, column->json_before, column->json_before_bytes);
      if (column->validity && !bit(column->validity, column->first_bit + row)) {
        out.json = copy(out.json, (const uint8_t *)"null            ", 4);
        continue;
      }
      switch (column->kind) {
        case TEXT: {
          const int32_t *bounds = bounds_of(column, row);
          out = put_text(out, column->texts + bounds[0], (uint32_t)(bounds[1] - bounds[0]));
          break;
        }
        case IDENTIFIER: {
          const int32_t *bounds = bounds_of(column, row);
          out = put_both(out, column->texts + bounds[0], (uint32_t)(bounds[1] - bounds[0]), 1, 1);
          break;
        }
        case INTEGER:
          out = put_both(out, cell, (uint32_t)(number(cell, ((const int64_t *)column->values)[row]) - cell), 0, 0);
          break;
        case BOOLEAN:
          if (bit(column->values, column->first_bit + row))
            out = put_both(out, (const uint8_t *)"true            ", 4, 0, 0);
          else
            out = put_both(out, (const uint8_t *)"false           ", 5, 0, 0);
          break;
        case DATE:
          out = put_both(out, cell, (uint32_t)(date(cell, ((const int32_t *)column->values)[row]) - cell), 0, 1);
          break;
        case TIMESTAMP:
          out = put_both(out, cell, (uint32_t)(timestamp(cell, ((const int64_t *)column->values)[row]) - cell), 0, 1);
          break;
      }
    }
    *out.csv++ = '\n';
    *out.json++ = '}';
    *csv_bounds++ = (uint32_t)(out.csv - csv);
    *json_bounds++ = (uint32_t)(out.json - json);
  }
  return row;
}
