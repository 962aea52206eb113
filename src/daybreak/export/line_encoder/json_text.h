/* Texts in JSON. The line encoder and the merge of deltas share this, so that their lines are equal. */

#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdint.h>

static const char HEX[] = "0123456789ABCDEF";

/* Writes one byte of a JSON string, escaped. */
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

#endif
