/* Merges the rows of two CSV files, both in key order, to the lines of a delta.
 *
 * tools/delta-merge compiles this to WebAssembly. The lines are those that merge.py makes in Python; tests compare the
 * two. The host (kernel.py) copies rows into memory and calls `step`. Memory is read and written sixteen bytes at a
 * time, so at least sixteen bytes of padding follow everything.
 *
 * Rows with the same key form one group. Equal rows are compared sixteen bytes at a time and never parsed, except for
 * their keys.
 */

#include <stdint.h>
#include <wasm_simd128.h>

#include "../../line_encoder/json_text.h"

enum { QUOTED, TIME, PLAIN };
enum { MAX_COLUMNS = 64, MAX_KEYS = 8, MAX_SAVED_KEY = 4096 };
/* Result of `step`. */
enum { DONE, NEEDS_OLD, NEEDS_NEW, OUTPUT_FULL, INCOMPLETE_ROW };

typedef struct {
  uint32_t kind;
  const uint8_t *json_before; /* bytes before the value: comma and name */
  uint32_t json_before_bytes;
} Column;

typedef struct {
  const uint8_t *at;
  uint32_t bytes;
} Cell;

/* The key of the last consumed row of one side, for the check of the order. */
typedef struct {
  uint32_t is_set;
  uint32_t bytes[MAX_KEYS];
  uint8_t cells[MAX_SAVED_KEY];
} SavedKey;

typedef struct {
  const uint8_t *rows;
  uint32_t length;
  uint32_t ended;
  uint32_t suffix_bytes; /* length of the constant columns, with their commas, at the end of each row */
  const uint8_t *suffix;
  uint32_t used;
} Side;

typedef struct {
  Side old, new;
  const Column *columns;
  uint32_t column_count;
  const uint32_t *key; /* columns of the key, in its order */
  uint32_t key_count;
  uint32_t key_columns; /* columns up to the last one of the key */
  uint8_t *csv;
  uint8_t *json;
  uint32_t csv_capacity;
  uint32_t json_capacity;
  uint32_t csv_length;
  uint32_t json_length;
  uint32_t deleted;
  uint32_t inserted;
  uint32_t lines;
  uint64_t seed;
  uint64_t sums[2]; /* of the inserted rows, minus those of the deleted rows */
} Task;

/* --- Rows and cells ------------------------------------------------------------------------------------------- */

/* Returns whether the number of quotes counted in the lanes is odd. */
static inline uint32_t is_odd(v128_t counts) { return __builtin_popcount(wasm_i8x16_bitmask(wasm_i8x16_shl(counts, 7))) & 1; }

/* Returns the position after the row at `from`, 0 if it is not complete. LF in quotes does not end a row. */
static inline const uint8_t *row_end(const uint8_t *from, const uint8_t *end) {
  v128_t counts = wasm_i8x16_splat(0);
  for (const uint8_t *at = from; at < end; at += 16) {
    v128_t block = wasm_v128_load(at);
    v128_t quotes = wasm_i8x16_eq(block, wasm_i8x16_splat('"'));
    v128_t feeds = wasm_i8x16_eq(block, wasm_i8x16_splat('\n'));
    if (wasm_v128_any_true(feeds)) {
      uint32_t quote_bits = wasm_i8x16_bitmask(quotes), odd = is_odd(counts);
      for (uint32_t bits = wasm_i8x16_bitmask(feeds); bits; bits &= bits - 1) {
        uint32_t place = __builtin_ctz(bits);
        if ((odd + __builtin_popcount(quote_bits & ((1U << place) - 1))) & 1) continue;
        return at + place < end ? at + place + 1 : 0;
      }
    }
    counts = wasm_i8x16_sub(counts, quotes);
  }
  return 0;
}

static inline int equal(const uint8_t *a, const uint8_t *b, uint32_t bytes) {
  uint32_t at = 0;
  for (; at + 16 <= bytes; at += 16)
    if (wasm_v128_any_true(wasm_v128_xor(wasm_v128_load(a + at), wasm_v128_load(b + at)))) return 0;
  uint32_t rest = (1U << (bytes - at)) - 1;
  return (wasm_i8x16_bitmask(wasm_i8x16_eq(wasm_v128_load(a + at), wasm_v128_load(b + at))) & rest) == rest;
}

/* Copies bytes, and up to fifteen after them. Returns the end of the copy. A call of the engine's own copy would take
 * longer than most cells. */
static inline uint8_t *copy(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += 16) wasm_v128_store(to + at, wasm_v128_load(from + at));
  return to + bytes;
}

/* Returns the position of the next byte of that value, `end` if there is none. */
static inline const uint8_t *find(const uint8_t *from, const uint8_t *end, uint8_t byte) {
  for (; from < end; from += 16) {
    uint32_t found = wasm_i8x16_bitmask(wasm_i8x16_eq(wasm_v128_load(from), wasm_i8x16_splat((int8_t)byte)));
    if (!found) continue;
    from += __builtin_ctz(found);
    return from < end ? from : end;
  }
  return end;
}

/* Splits a row without its LF into cells, with their quotes. Missing cells are empty. */
static inline void split(const uint8_t *from, const uint8_t *end, Cell *cells, uint32_t count) {
  for (uint32_t c = 0; c < count; c++) {
    const uint8_t *start = from;
    if (from < end && *from == '"') {
      for (from++; (from = find(from, end, '"')) < end; from++)
        if (++from >= end || *from != '"') break;
    } else {
      from = find(from, end, ',');
    }
    cells[c] = (Cell){start, (uint32_t)(from - start)};
    if (from < end) from++; /* the comma */
  }
}

/* --- Order of keys -------------------------------------------------------------------------------------------- */

/* Compares two quoted texts by their bytes. */
static int compare_texts(Cell a, Cell b) {
  if (a.bytes == b.bytes && equal(a.at, b.at, a.bytes)) return 0;
  uint32_t i = 1, j = 1;
  for (;;) {
    int a_ends = i + 1 >= a.bytes, b_ends = j + 1 >= b.bytes;
    if (a_ends || b_ends) return b_ends - a_ends;
    uint8_t x = a.at[i], y = b.at[j];
    if (x != y) return x < y ? -1 : 1;
    i += x == '"' ? 2 : 1;
    j += x == '"' ? 2 : 1;
  }
}

typedef struct {
  int infinite;
  int64_t year;
  const uint8_t *rest;
  uint32_t bytes;
} Instant;

static int starts_with(Cell cell, const char *text) {
  uint32_t at = 0;
  for (; text[at]; at++)
    if (at >= cell.bytes || cell.at[at] != (uint8_t)text[at]) return 0;
  return 1;
}

/* Splits a date or time after its year, which has more than four digits after 9999. */
static Instant instant(Cell cell) {
  Instant value = {0, 0, cell.at, cell.bytes};
  if (starts_with(cell, "infinity")) return (Instant){1, 0, cell.at, 0};
  if (starts_with(cell, "-infinity")) return (Instant){-1, 0, cell.at, 0};
  uint32_t at = cell.at[0] == '-';
  int negative = (int)at;
  for (; at < cell.bytes && cell.at[at] >= '0' && cell.at[at] <= '9'; at++)
    value.year = value.year * 10 + (cell.at[at] - '0');
  if (negative) value.year = -value.year;
  if (at < cell.bytes) at++; /* the dash */
  value.rest = cell.at + at;
  value.bytes = cell.bytes - at;
  static const char before_christ[] = " (BC)";
  if (value.bytes >= 5 && starts_with((Cell){value.rest + value.bytes - 5, 5}, before_christ)) {
    value.year = 1 - value.year;
    value.bytes -= 5;
  }
  return value;
}

static int compare_times(Cell a, Cell b) {
  if (a.bytes == b.bytes && equal(a.at, b.at, a.bytes)) return 0;
  Instant x = instant(a), y = instant(b);
  if (x.infinite != y.infinite) return x.infinite < y.infinite ? -1 : 1;
  if (x.year != y.year) return x.year < y.year ? -1 : 1;
  for (uint32_t at = 0; at < x.bytes && at < y.bytes; at++)
    if (x.rest[at] != y.rest[at]) return x.rest[at] < y.rest[at] ? -1 : 1;
  return x.bytes == y.bytes ? 0 : x.bytes < y.bytes ? -1 : 1;
}

typedef struct {
  Cell cells[MAX_KEYS];
} Key;

static Key key_of(const Task *task, const uint8_t *from, const uint8_t *end) {
  Cell cells[MAX_COLUMNS];
  Key key;
  split(from, end, cells, task->key_columns);
  for (uint32_t k = 0; k < task->key_count; k++) key.cells[k] = cells[task->key[k]];
  return key;
}

/* Compares keys as the rows of a file are ordered, NULL first. */
static int compare_keys(const Task *task, const Key *a, const Key *b) {
  for (uint32_t k = 0; k < task->key_count; k++) {
    Cell x = a->cells[k], y = b->cells[k];
    int order;
    if (!x.bytes || !y.bytes)
      order = (x.bytes != 0) - (y.bytes != 0);
    else
      order = task->columns[task->key[k]].kind == TIME ? compare_times(x, y) : compare_texts(x, y);
    if (order) return order;
  }
  return 0;
}

static void save_key(const Task *task, SavedKey *saved, const Key *key) {
  uint32_t bytes = 0;
  saved->is_set = 0;
  for (uint32_t k = 0; k < task->key_count; k++) bytes += key->cells[k].bytes;
  if (bytes > MAX_SAVED_KEY - 16) return; /* The order after an unusually long key is not checked. */
  uint8_t *to = saved->cells;
  for (uint32_t k = 0; k < task->key_count; k++) {
    saved->bytes[k] = key->cells[k].bytes;
    to = copy(to, key->cells[k].at, key->cells[k].bytes);
  }
  saved->is_set = 1;
}

/* Returns whether the key of a row is not smaller than the saved one. */
static int follows_saved(const Task *task, const SavedKey *saved, const uint8_t *row, const uint8_t *end) {
  if (!saved->is_set) return 1;
  Key last, key = key_of(task, row, end);
  const uint8_t *at = saved->cells;
  for (uint32_t k = 0; k < task->key_count; k++) {
    last.cells[k] = (Cell){at, saved->bytes[k]};
    at += saved->bytes[k];
  }
  return compare_keys(task, &last, &key) <= 0;
}

typedef struct {
  const uint8_t *row; /* the row of the key, 0 if the key is not known */
  Key key;
} KnownKey;

/* Returns whether the key of a row is not smaller than that of the row before. Most rows differ in the first bytes of
 * their first column. */
static inline int follows(
    const Task *task, KnownKey *known, const uint8_t *before, const uint8_t *row, const uint8_t *end) {
  if (task->key[0] == 0 && task->columns[0].kind == QUOTED && *before == '"' && *row == '"') {
    v128_t one = wasm_v128_load(before + 1), two = wasm_v128_load(row + 1), quote = wasm_i8x16_splat('"');
    uint32_t differ = wasm_i8x16_bitmask(wasm_i8x16_ne(one, two));
    uint32_t quotes = wasm_i8x16_bitmask(wasm_v128_or(wasm_i8x16_eq(one, quote), wasm_i8x16_eq(two, quote)));
    if (differ) {
      uint32_t place = __builtin_ctz(differ);
      /* After a quote, the text has ended or the quote is doubled. */
      if (!(quotes & ((2U << place) - 1))) return before[1 + place] < row[1 + place];
    }
  }
  if (known->row != before) known->key = key_of(task, before, row - 1);
  Key key = key_of(task, row, end);
  int order = compare_keys(task, &known->key, &key);
  known->row = row;
  known->key = key;
  return order <= 0;
}

/* --- Sums of rows ---------------------------------------------------------------------------------------------- */

typedef struct {
  v128_t keys, sum;
} Hash;

static inline Hash begin_hash(uint64_t seed) {
  v128_t keys = wasm_i64x2_make((int64_t)seed, (int64_t)(seed ^ 0x9E3779B185EBCA87ULL));
  return (Hash){keys, keys};
}

/* Adds sixteen bytes: products of their 32-bit words, and the bytes themselves in the other half of the sum. */
static inline Hash add_block(Hash hash, v128_t block) {
  v128_t words = wasm_v128_xor(block, hash.keys);
  v128_t products = wasm_u64x2_extmul_low_u32x4(words, wasm_i32x4_shuffle(words, words, 2, 3, 2, 3));
  hash.sum = wasm_i64x2_add(wasm_i64x2_add(hash.sum, products), wasm_i64x2_shuffle(block, block, 1, 0));
  hash.keys = wasm_i64x2_add(
      hash.keys, wasm_i64x2_const((int64_t)0xC2B2AE3D27D4EB4FULL, (int64_t)0xD6E8FEB86659FD93ULL));
  return hash;
}

/* Adds the first bytes of a block; those after them do not count. */
static inline Hash add_bytes(Hash hash, v128_t block, uint32_t bytes) {
  const v128_t places = wasm_i8x16_const(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return add_block(hash, wasm_v128_and(block, wasm_i8x16_lt(places, wasm_i8x16_splat((int8_t)bytes))));
}

static inline uint64_t mixed(uint64_t value) {
  value ^= value >> 37;
  value *= 0x165667919E3779F9ULL;
  return value ^ value >> 32;
}

/* Adds the 128-bit hash of a row to two sums, or subtracts it. */
static inline void end_hash(Hash hash, uint32_t bytes, uint64_t *sums, int sign) {
  uint64_t one = (uint64_t)wasm_i64x2_extract_lane(hash.sum, 0) + bytes * 0x9E3779B185EBCA87ULL;
  uint64_t two = (uint64_t)wasm_i64x2_extract_lane(hash.sum, 1) ^ one << 23;
  one = mixed(one ^ two >> 17);
  two = mixed(two + one);
  sums[0] += sign > 0 ? one : 0 - one;
  sums[1] += sign > 0 ? two : 0 - two;
}

static void add_row(uint64_t *sums, uint64_t seed, const uint8_t *row, uint32_t bytes, int sign) {
  Hash hash = begin_hash(seed);
  uint32_t at = 0;
  for (; at + 16 <= bytes; at += 16) hash = add_block(hash, wasm_v128_load(row + at));
  if (at < bytes) hash = add_bytes(hash, wasm_v128_load(row + at), bytes - at);
  end_hash(hash, bytes, sums, sign);
}

/* Sums over the rows that one side has consumed. `result` is why rows were not added. */
typedef struct {
  SavedKey *last;
  uint32_t rows;
  uint32_t result;
  uint32_t padding;
  uint64_t sums[2];
} Sums;

enum { ADDED, OTHER_CONSTANT, OUT_OF_ORDER };

/* The consumed rows of one side that remain to be added to its sums. */
typedef struct {
  const Side *side;
  Sums *sums;
  const uint8_t *at, *end;
  const uint8_t *before; /* the row before `at`, 0 before the first one of this call */
  KnownKey known;
} Remaining;

static Remaining remaining(const Side *side, Sums *sums) {
  return (Remaining){side, sums, side->rows, side->rows + side->used, 0, {0, {{{0, 0}}}}};
}

/* Returns the end of the next row, 0 if it does not end with the constants of its side. */
static inline const uint8_t *next_end(Remaining *rows) {
  const uint8_t *end = row_end(rows->at, rows->end);
  const uint32_t suffix_bytes = rows->side->suffix_bytes;
  if (end && (uint32_t)(end - rows->at) > suffix_bytes &&
      equal(end - 1 - suffix_bytes, rows->side->suffix, suffix_bytes))
    return end;
  rows->sums->result = OTHER_CONSTANT;
  return 0;
}

/* Returns the length of the next row, which ends there, without its constants. */
static inline uint32_t body_bytes(const Remaining *rows, const uint8_t *end) {
  return (uint32_t)(end - rows->at) - 1 - rows->side->suffix_bytes;
}

/* Returns whether the next row, which ends there, is in order. */
static inline int is_in_order(const Task *task, Remaining *rows, const uint8_t *end) {
  int follows_last = rows->before ? follows(task, &rows->known, rows->before, rows->at, end - 1)
                                  : follows_saved(task, rows->sums->last, rows->at, end - 1);
  if (!follows_last) rows->sums->result = OUT_OF_ORDER;
  return follows_last;
}

static inline void count_row(Remaining *rows, const uint8_t *end) {
  rows->sums->rows++;
  rows->before = rows->at;
  rows->at = end;
}

/* Adds the next row, which ends there, to the sums. Returns 0 if it is out of order. */
static int add_next(const Task *task, Remaining *rows, const uint8_t *end) {
  if (!is_in_order(task, rows, end)) return 0;
  add_row(rows->sums->sums, task->seed, rows->at, body_bytes(rows, end), 1);
  count_row(rows, end);
  return 1;
}

/* Returns the end of the next row of one side if it is equal, but for the constants, to the next row of the other side,
 * which ends at `end`. Returns 0 otherwise. */
static inline const uint8_t *end_of_equal(const Remaining *rows, const Remaining *other, const uint8_t *end) {
  const uint32_t bytes = body_bytes(other, end), suffix_bytes = rows->side->suffix_bytes;
  if ((uint64_t)(rows->end - rows->at) <= (uint64_t)bytes + suffix_bytes) return 0;
  const uint8_t *suffix = rows->at + bytes;
  int is_equal = equal(rows->at, other->at, bytes) && equal(suffix, rows->side->suffix, suffix_bytes);
  return is_equal && suffix[suffix_bytes] == '\n' ? suffix + suffix_bytes + 1 : 0;
}

/* Adds the next row of each side, or only the one whose key comes first. A row that both sides have would add the same
 * to both sums, and one is subtracted from the other: it is only counted. After another such row, its order is known
 * from the other side. Returns 0 for a fault. */
static inline int add_pair(const Task *task, Remaining *old, Remaining *new, int *is_after_equal) {
  const uint8_t *new_end = next_end(new), *old_end = new_end ? end_of_equal(old, new, new_end) : 0;
  if (!new_end) return 0;
  if (old_end) {
    if (!is_in_order(task, new, new_end) || !(*is_after_equal || is_in_order(task, old, old_end))) return 0;
    count_row(old, old_end);
    count_row(new, new_end);
    *is_after_equal = 1;
    return 1;
  }
  *is_after_equal = 0;
  if (!(old_end = next_end(old))) return 0;
  Key old_key = key_of(task, old->at, old_end - 1), new_key = key_of(task, new->at, new_end - 1);
  int order = compare_keys(task, &old_key, &new_key);
  return (order > 0 || add_next(task, old, old_end)) && (order < 0 || add_next(task, new, new_end));
}

/* Adds the consumed rows of both sides to their sums and checks their order, independently of the merge. */
static void add_rows(const Task *task, Sums *old_sums, Sums *new_sums) {
  Remaining sides[2] = {remaining(&task->old, old_sums), remaining(&task->new, new_sums)};
  int is_after_equal = 0;
  while (sides[0].at < sides[0].end && sides[1].at < sides[1].end)
    if (!add_pair(task, &sides[0], &sides[1], &is_after_equal)) return;
  for (Remaining *rows = sides; rows < sides + 2; rows++) {
    while (rows->at < rows->end) {
      const uint8_t *end = next_end(rows);
      if (!end || !add_next(task, rows, end)) return;
    }
    if (!rows->before) continue;
    Key key = key_of(task, rows->before, rows->at - 1);
    save_key(task, rows->sums->last, &key);
  }
}

/* --- Output ---------------------------------------------------------------------------------------------------- */

/* Returns the position of the next byte that JSON escapes, `end` if there is none. */
static inline const uint8_t *next_escaped(const uint8_t *from, const uint8_t *end) {
  for (; from < end; from += 16) {
    v128_t block = wasm_v128_load(from);
    v128_t marks = wasm_v128_or(
        wasm_i8x16_eq(block, wasm_i8x16_splat('"')), wasm_i8x16_eq(block, wasm_i8x16_splat('\\')));
    uint32_t found = wasm_i8x16_bitmask(wasm_v128_or(marks, wasm_u8x16_lt(block, wasm_u8x16_splat(0x20))));
    if (!found) continue;
    from += __builtin_ctz(found);
    return from < end ? from : end;
  }
  return end;
}

static uint8_t *json_value(uint8_t *to, uint32_t kind, Cell cell) {
  if (!cell.bytes) return copy(to, (const uint8_t *)"null", 4);
  if (kind == PLAIN) return copy(to, cell.at, cell.bytes);
  *to++ = '"';
  if (kind == TIME) {
    to = copy(to, cell.at, cell.bytes);
  } else {
    const uint8_t *at = cell.at + 1, *end = cell.at + cell.bytes - 1;
    while (at < end) {
      const uint8_t *escaped = next_escaped(at, end);
      to = copy(to, at, (uint32_t)(escaped - at));
      if (escaped == end) break;
      to = json_byte(to, *escaped);
      at = escaped + (*escaped == '"' ? 2 : 1);
    }
  }
  *to++ = '"';
  return to;
}

/* Writes one line of the delta. Returns 0 if it does not fit. */
static int put_line(Task *task, uint8_t operation, const uint8_t *row, const uint8_t *end) {
  uint64_t bytes = (uint64_t)(end - row), names = 16;
  for (uint32_t c = 0; c < task->column_count; c++) names += task->columns[c].json_before_bytes + 4;
  if (task->csv_length + bytes + 8 > task->csv_capacity) return 0;
  if (task->json_length + names + 6 * bytes > task->json_capacity) return 0;
  Cell cells[MAX_COLUMNS];
  split(row, end, cells, task->column_count);
  if (operation == 'D')
    for (uint32_t c = 0; c < task->column_count; c++) {
      int is_key = 0;
      for (uint32_t k = 0; k < task->key_count; k++) is_key |= task->key[k] == c;
      if (!is_key) cells[c].bytes = 0;
    }
  uint8_t *csv = task->csv + task->csv_length, *json = task->json + task->json_length;
  *csv++ = '"'; *csv++ = operation; *csv++ = '"';
  json = copy(json, (const uint8_t *)",\n{\"_OP\":\"", 10);
  *json++ = operation;
  *json++ = '"';
  for (uint32_t c = 0; c < task->column_count; c++) {
    *csv++ = ',';
    csv = copy(csv, cells[c].at, cells[c].bytes);
    json = copy(json, task->columns[c].json_before, task->columns[c].json_before_bytes);
    json = json_value(json, task->columns[c].kind, cells[c]);
  }
  *csv++ = '\n';
  *json++ = '}';
  task->csv_length = (uint32_t)(csv - task->csv);
  task->json_length = (uint32_t)(json - task->json);
  task->lines++;
  return 1;
}

/* --- Merge ----------------------------------------------------------------------------------------------------- */

enum { NONE, PARTIAL, COMPLETE, MALFORMED };

typedef struct {
  const uint8_t *start, *end;
  uint32_t rows;
  uint32_t state;
  Key key;
} Group;

/* Returns the rows with the same key at the position of a side. */
static Group group_at(const Task *task, const Side *side) {
  const uint8_t *at = side->rows + side->used, *end = side->rows + side->length;
  Group group = {at, at, 0, NONE, {{{0, 0}}}};
  while (at < end) {
    const uint8_t *next = row_end(at, end);
    if (!next) {
      group.state = side->ended ? MALFORMED : PARTIAL;
      return group;
    }
    if ((uint32_t)(next - at) - 1 < side->suffix_bytes) {
      group.state = MALFORMED;
      return group;
    }
    Key key = key_of(task, at, next - 1);
    if (!group.rows)
      group.key = key;
    else if (compare_keys(task, &group.key, &key)) {
      group.state = COMPLETE;
      return group;
    }
    group.rows++;
    at = group.end = next;
  }
  if (!side->ended)
    group.state = PARTIAL;
  else if (group.rows)
    group.state = COMPLETE;
  return group;
}

static int same_rows(const Task *task, const Group *a, const Group *b) {
  if (a->rows != b->rows) return 0;
  const uint8_t *x = a->start, *y = b->start;
  for (uint32_t row = 0; row < a->rows; row++) {
    const uint8_t *x_end = row_end(x, a->end), *y_end = row_end(y, b->end);
    uint32_t x_bytes = (uint32_t)(x_end - x) - 1 - task->old.suffix_bytes;
    uint32_t y_bytes = (uint32_t)(y_end - y) - 1 - task->new.suffix_bytes;
    if (x_bytes != y_bytes || !equal(x, y, x_bytes)) return 0;
    x = x_end;
    y = y_end;
  }
  return 1;
}

static void add_group(Task *task, const Group *group, uint32_t suffix_bytes, int sign) {
  for (const uint8_t *at = group->start; at < group->end;) {
    const uint8_t *next = row_end(at, group->end);
    add_row(task->sums, task->seed, at, (uint32_t)(next - at) - 1 - suffix_bytes, sign);
    at = next;
  }
}

/* Writes the lines of a changed group. Returns 0, and writes nothing, if they do not fit. */
static int put_group(Task *task, const Group *was, const Group *now) {
  uint32_t csv_length = task->csv_length, json_length = task->json_length, lines = task->lines;
  int fits = 1;
  if (was) fits = put_line(task, 'D', was->start, row_end(was->start, was->end) - 1);
  if (now)
    for (const uint8_t *at = now->start; fits && at < now->end;) {
      const uint8_t *next = row_end(at, now->end);
      fits = put_line(task, 'I', at, next - 1);
      at = next;
    }
  if (!fits) {
    task->csv_length = csv_length;
    task->json_length = json_length;
    task->lines = lines;
    return 0;
  }
  if (was) {
    task->deleted += was->rows;
    add_group(task, was, task->old.suffix_bytes, -1);
  }
  if (now) {
    task->inserted += now->rows;
    add_group(task, now, task->new.suffix_bytes, 1);
  }
  return 1;
}

/* Returns the length of the common prefix. */
static inline uint32_t common_bytes(const uint8_t *a, const uint8_t *b, uint32_t bytes) {
  uint32_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    v128_t one = wasm_v128_xor(wasm_v128_load(a + at), wasm_v128_load(b + at));
    v128_t two = wasm_v128_xor(wasm_v128_load(a + at + 16), wasm_v128_load(b + at + 16));
    v128_t three = wasm_v128_xor(wasm_v128_load(a + at + 32), wasm_v128_load(b + at + 32));
    v128_t four = wasm_v128_xor(wasm_v128_load(a + at + 48), wasm_v128_load(b + at + 48));
    if (wasm_v128_any_true(wasm_v128_or(wasm_v128_or(one, two), wasm_v128_or(three, four)))) break;
  }
  while (at < bytes && a[at] == b[at]) at++;
  return at;
}

/* Returns whether the number of quotes in some bytes is odd. */
static inline uint32_t quotes_are_odd(const uint8_t *from, const uint8_t *end) {
  v128_t counts = wasm_i8x16_splat(0);
  uint32_t odd = 0;
  for (; from + 16 <= end; from += 16)
    counts = wasm_i8x16_sub(counts, wasm_i8x16_eq(wasm_v128_load(from), wasm_i8x16_splat('"')));
  for (; from < end; from++) odd ^= *from == '"';
  return odd ^ is_odd(counts);
}

/* Returns the start of the last row that begins before `end`. Rows begin at `from`, and `odd` says whether the bytes
 * between contain an odd number of quotes. */
static const uint8_t *last_row(const uint8_t *from, const uint8_t *end, uint32_t odd) {
  for (const uint8_t *at = end; at > from;) {
    at--;
    if (*at == '"')
      odd ^= 1;
    else if (*at == '\n' && !odd)
      return at + 1;
  }
  return from;
}

/* Returns the end of the rows that are equal on both sides, rows without constants. */
static const uint8_t *end_of_equal_rows(const uint8_t *x, const uint8_t *y, uint32_t bytes) {
  const uint8_t *end = y + common_bytes(x, y, bytes);
  return last_row(y, end, quotes_are_odd(y, end));
}

/* Returns the end of the rows that are equal on both sides but for their constants, which have the same length. */
static const uint8_t *end_of_equal_bodies(const Task *task, const uint8_t *x, const uint8_t *y, uint32_t bytes) {
  const uint32_t suffix_bytes = task->new.suffix_bytes;
  for (const uint8_t *end = y + bytes; y < end;) {
    const uint8_t *next = row_end(y, end);
    if (!next) break;
    uint32_t length = (uint32_t)(next - y);
    if (length <= suffix_bytes || !equal(x, y, length - 1 - suffix_bytes) || x[length - 1] != '\n') break;
    if (!equal(x + length - 1 - suffix_bytes, task->old.suffix, suffix_bytes)) break;
    x += length;
    y = next;
  }
  return y;
}

/* Consumes the rows that are equal on both sides, up to the start of the last group of them, which may continue. */
static void skip_equal_rows(Task *task) {
  Side *old = &task->old, *new = &task->new;
  const uint8_t *x = old->rows + old->used, *y = new->rows + new->used;
  uint32_t bytes = new->length - new->used;
  if (old->length - old->used < bytes) bytes = old->length - old->used;
  if (old->suffix_bytes != new->suffix_bytes) return;
  const uint8_t *end = new->suffix_bytes ? end_of_equal_bodies(task, x, y, bytes) : end_of_equal_rows(x, y, bytes);
  if (end == y) return;
  const uint8_t *group = last_row(y, end - 1, 0);
  Key key = key_of(task, group, end - 1);
  while (group > y) {
    const uint8_t *before = last_row(y, group - 1, 0);
    Key previous = key_of(task, before, group - 1);
    if (compare_keys(task, &previous, &key)) break;
    group = before;
  }
  old->used += (uint32_t)(group - y);
  new->used += (uint32_t)(group - y);
}

/* Merges complete groups. Returns why it stopped. */
static uint32_t merge(Task *task) {
  Side *old = &task->old, *new = &task->new;
  for (;;) {
    skip_equal_rows(task);
    Group was = group_at(task, old);
    if (was.state == MALFORMED) return INCOMPLETE_ROW;
    if (was.state == PARTIAL) return NEEDS_OLD;
    Group now = group_at(task, new);
    if (now.state == MALFORMED) return INCOMPLETE_ROW;
    if (now.state == PARTIAL) return NEEDS_NEW;
    if (was.state == NONE && now.state == NONE) return DONE;
    int order = was.state == NONE ? 1 : now.state == NONE ? -1 : compare_keys(task, &was.key, &now.key);
    if (order != 0 || !same_rows(task, &was, &now))
      if (!put_group(task, order <= 0 ? &was : 0, order >= 0 ? &now : 0)) return OUTPUT_FULL;
    if (order <= 0) old->used = (uint32_t)(was.end - old->rows);
    if (order >= 0) new->used = (uint32_t)(now.end - new->rows);
  }
}

/* The call of `step`. The host writes it and reads the result, because each argument of a call from Python is slow. */
static struct {
  Task task;
  Sums old, new;
  uint32_t result;
} call;

__attribute__((export_name("call_at"))) void *call_at(void) { return &call; }

/* Merges complete groups, and adds the consumed rows to the sums of their side. `result` is why the merge stopped. */
__attribute__((export_name("step"))) void step(void) {
  call.result = merge(&call.task);
  add_rows(&call.task, &call.old, &call.new);
}
