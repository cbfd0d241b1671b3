// Regular expressions by PCRE2 in UTF mode, matched against whole texts; matching time is bounded.
#include "codecs/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { kMatchLimit = 10 * 1000 * 1000 };  // steps of PCRE2's matcher

typedef struct compiled {
  pcre2_code* code;
  pcre2_match_data* match;
  pcre2_match_context* limits;
} compiled;

void codecs_pattern_free(void* pattern) {
  compiled* c = pattern;
  if (!c) return;
  pcre2_match_context_free(c->limits);
  pcre2_match_data_free(c->match);
  pcre2_code_free(c->code);
  free(c);
}

void* codecs_pattern_compile(const char* pattern, size_t length, char* why, size_t size) {
  int error;
  PCRE2_SIZE where;
  uint32_t options = PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY;
  compiled* c = calloc(1, sizeof(*c));
  snprintf(why, size, "no memory");
  if (!c) return NULL;
  c->code = pcre2_compile((PCRE2_SPTR)pattern, length, options, &error, &where, NULL);
  if (!c->code) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(error, text, sizeof(text));
    snprintf(why, size, "character %zu: %s", (size_t)where, (const char*)text);
    free(c);
    return NULL;
  }
  c->match = pcre2_match_data_create_from_pattern(c->code, NULL);
  c->limits = pcre2_match_context_create(NULL);
  if (!c->match || !c->limits) {
    codecs_pattern_free(c);
    return NULL;
  }
  pcre2_set_match_limit(c->limits, kMatchLimit);
  return c;
}

int codecs_pattern_match(void* pattern, const char* text, size_t length) {
  const compiled* c = pattern;
  int found =
      pcre2_match(c->code, (PCRE2_SPTR)(text ? text : ""), length, 0, 0, c->match, c->limits);
  if (found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_HEAPLIMIT) return -1;
  return found >= 0;
}
