// The text form of protobuf: name: value, name { … }, lists in [ ], comments after #.
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "import/pb/pb.h"

typedef struct reader {
  const char* at;
  const char* end;
  int line;
  const char* line_start;
  carnot_pb_store* store;
} reader;

#define TEXT_ERROR(r, ...)                                                               \
  carnot_status_annotate(CARNOT_ERROR(INVALID_MODEL, __VA_ARGS__), "line %d, column %d", \
                         (r)->line, column(r))

static int column(const reader* r) { return (int)(r->at - r->line_start) + 1; }

static bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '/';
}

// Steps over white space and comments; the next character, or 0 at the end.
static char peek(reader* r) {
  while (r->at < r->end) {
    if (*r->at == '#') {
      while (r->at < r->end && *r->at != '\n') r->at++;
    } else if (is_space(*r->at)) {
      if (*r->at++ == '\n') {
        r->line++;
        r->line_start = r->at;
      }
    } else {
      return *r->at;
    }
  }
  return 0;
}

static bool accept(reader* r, char c) {
  if (peek(r) != c) return false;
  r->at++;
  return true;
}

static carnot_strview read_word(reader* r) {
  peek(r);
  carnot_strview word = {r->at, 0};
  while (r->at < r->end && is_word(*r->at)) r->at++;
  word.size = (size_t)(r->at - word.data);
  return word;
}

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// One escaped character after the backslash, appended to |out|.
static carnot_status* read_escape(reader* r, char* out) {
  static const char kFrom[] = "abfnrtv\\'\"?", kTo[] = "\a\b\f\n\r\t\v\\'\"?";
  if (r->at >= r->end) return TEXT_ERROR(r, "the text ends inside a string");
  char c = *r->at++;
  const char* known = c ? strchr(kFrom, c) : NULL;
  if (known) {
    *out = kTo[known - kFrom];
    return NULL;
  }
  int value = 0, digits = 0, base = c == 'x' || c == 'X' ? 16 : 8;
  if (base == 8) r->at--;
  while (r->at < r->end && digits < (base == 8 ? 3 : 2)) {
    int digit = hex_digit(*r->at);
    if (digit < 0 || digit >= base) break;
    value = value * base + digit;
    digits++;
    r->at++;
  }
  if (digits == 0) return TEXT_ERROR(r, "the escape \\%c does not exist", c);
  *out = (char)value;
  return NULL;
}

// Strings that follow one another are one. A view of the text where it is a single piece without
// escapes.
static carnot_status* read_string(reader* r, carnot_strview* out) {
  size_t room = 0, size = 0;
  char* copy = NULL;
  for (int piece = 0;; piece++) {
    char quote = peek(r);
    if (quote != '"' && quote != '\'') break;
    const char* start = ++r->at;
    const char* stop = start;
    bool escaped = false;
    while (stop < r->end && *stop != quote && *stop != '\n') {
      if (*stop == '\\') escaped = true, stop++;
      stop++;
    }
    if (stop >= r->end || *stop != quote) return TEXT_ERROR(r, "a string without end");
    if (piece == 0 && !escaped) {
      *out = (carnot_strview){start, (size_t)(stop - start)};
      r->at = stop + 1;
      continue;
    }
    size_t need = (piece == 1 && !copy ? out->size : size) + (size_t)(stop - start);
    if (need > room) {
      void* memory = NULL;
      CARNOT_TRY(carnot_pb_alloc(r->store, need * 2 + 16, 1, &memory));
      if (copy)
        memcpy(memory, copy, size);
      else if (piece > 0 && out->size)
        memcpy(memory, out->data, size = out->size);
      copy = memory;
      room = need * 2 + 16;
    }
    while (r->at < stop) {
      char c = *r->at++;
      if (c == '\\') CARNOT_TRY(read_escape(r, &c));
      copy[size++] = c;
    }
    r->at = stop + 1;
    *out = (carnot_strview){copy, size};
  }
  return NULL;
}

// A number in the C locale, whatever the process has set.
static double parse_double(const char* text, char** out_end) {
  static locale_t locale;
  if (!locale) locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return locale ? strtod_l(text, out_end, locale) : strtod(text, out_end);
}

static carnot_status* read_float(reader* r, double* out) {
  char text[64];
  size_t n = 0;
  if (peek(r) == '-' || peek(r) == '+') text[n++] = *r->at++;
  peek(r);
  while (r->at < r->end && n + 1 < sizeof(text) &&
         (is_word(*r->at) || *r->at == '-' || *r->at == '+')) {
    text[n++] = *r->at++;
  }
  text[n] = 0;
  char* end = NULL;
  *out = parse_double(text, &end);
  if (end != text && (*end == 'f' || *end == 'F') && end[1] == 0) end++;
  if (n == 0 || end == text || *end != 0) return TEXT_ERROR(r, "\"%s\" is no number", text);
  return NULL;
}

static carnot_status* read_int(reader* r, const carnot_pb_field* field, int64_t* out) {
  char text[64];
  bool negative = accept(r, '-');
  carnot_strview word = read_word(r);
  if (field->names && word.size && !is_digit(word.data[0])) {
    for (const carnot_pb_name* name = field->names; name->name; name++) {
      if (carnot_view_is(word, name->name)) {
        *out = name->value;
        return NULL;
      }
    }
  }
  static const char* const kBools[] = {"false", "true", "False", "True", "f", "t"};
  for (size_t i = 0; i < sizeof(kBools) / sizeof(kBools[0]); i++) {
    if (carnot_view_is(word, kBools[i])) {
      *out = i & 1;
      return NULL;
    }
  }
  if (word.size == 0 || word.size >= sizeof(text) || !is_digit(word.data[0])) {
    return TEXT_ERROR(r, "\"" CARNOT_VIEW_FMT "\" is no value of %s", CARNOT_VIEW_ARG(word),
                      field->name);
  }
  memcpy(text, word.data, word.size);
  text[word.size] = 0;
  char* end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 0);
  if (*end != 0 || errno == ERANGE) return TEXT_ERROR(r, "\"%s\" is no 64-bit integer", text);
  *out = negative ? (int64_t)(0 - (uint64_t)value) : (int64_t)value;
  return NULL;
}

static carnot_status* read_message(reader* r, const carnot_pb_message* message, char close,
                                   int depth, void* out_message);

static carnot_status* read_value(reader* r, const carnot_pb_message* message,
                                 const carnot_pb_field* field, int depth, void* out_message) {
  void* place = NULL;
  CARNOT_TRY(carnot_pb_place(r->store, message, field, out_message, &place));
  switch (field->kind) {
    case CARNOT_PB_INT: return read_int(r, field, place);
    case CARNOT_PB_TEXT: {
      char quote = peek(r);
      if (quote != '"' && quote != '\'') return TEXT_ERROR(r, "a string belongs here");
      return read_string(r, place);
    }
    case CARNOT_PB_MESSAGE: {
      char open = accept(r, '{') ? '{' : accept(r, '<') ? '<' : 0;
      if (!open) return TEXT_ERROR(r, "{ belongs here");
      return read_message(r, field->message, open == '{' ? '}' : '>', depth + 1, place);
    }
    case CARNOT_PB_FLOAT:
    case CARNOT_PB_DOUBLE: {
      double value = 0;
      CARNOT_TRY(read_float(r, &value));
      const float narrow = (float)value;
      if (field->kind == CARNOT_PB_FLOAT)
        memcpy(place, &narrow, sizeof(narrow));
      else
        memcpy(place, &value, sizeof(value));
      return NULL;
    }
  }
  return NULL;
}

static carnot_status* read_field(reader* r, const carnot_pb_message* message,
                                 const carnot_pb_field* field, int depth, void* out_message) {
  bool colon = accept(r, ':');
  if (!colon && field->kind != CARNOT_PB_MESSAGE) return TEXT_ERROR(r, ": belongs here");
  if (!field->repeated || !accept(r, '[')) return read_value(r, message, field, depth, out_message);
  if (accept(r, ']')) return NULL;
  do {
    CARNOT_TRY(read_value(r, message, field, depth, out_message));
  } while (accept(r, ','));
  return accept(r, ']') ? NULL : TEXT_ERROR(r, "] belongs here");
}

// Steps over the value of a field that no table knows.
static carnot_status* skip_value(reader* r, int depth) {
  if (depth > CARNOT_PB_MAX_DEPTH)
    return TEXT_ERROR(r, "messages nested deeper than %d", CARNOT_PB_MAX_DEPTH);
  bool list = accept(r, '[');
  char close = list ? ']' : accept(r, '{') ? '}' : accept(r, '<') ? '>' : 0;
  if (close) {
    while (!accept(r, close)) {
      if (!list && read_word(r).size == 0) return TEXT_ERROR(r, "a field belongs here");
      accept(r, ':');
      CARNOT_TRY(skip_value(r, depth + 1));
      if (!accept(r, ',')) accept(r, ';');
    }
    return NULL;
  }
  carnot_strview text;
  if (peek(r) == '"' || peek(r) == '\'') return read_string(r, &text);
  accept(r, '-');
  carnot_strview word = read_word(r);
  if (word.size == 0) return TEXT_ERROR(r, "a value belongs here");
  const bool exponent = is_digit(word.data[0]) || word.data[0] == '.';
  if (exponent && r->at < r->end && (*r->at == '-' || *r->at == '+')) {  // 1e-3
    r->at++;
    if (read_word(r).size == 0) return TEXT_ERROR(r, "an exponent belongs here");
  }
  return NULL;
}

const carnot_pb_message carnot_pb_unknown_message = {
    "unknown field", sizeof(carnot_pb_unknown), NULL, 0, NULL, NULL};

// A field of |message| that its table does not have: kept as text, skipped, or an error of a closed
// message.
static carnot_status* read_unknown(reader* r, const carnot_pb_message* message, carnot_strview name,
                                   int depth, void* out_message) {
  bool exists = !message->skipped;
  for (const char* at = message->skipped; at && *at && !exists;) {
    const size_t length = strcspn(at, " ");
    exists = carnot_view_equal(name, (carnot_strview){at, length});
    at += length + (at[length] == ' ');
  }
  if (!exists)
    return TEXT_ERROR(r, "%s has no field " CARNOT_VIEW_FMT, message->name, CARNOT_VIEW_ARG(name));
  accept(r, ':');
  peek(r);
  const char* const start = r->at;
  CARNOT_TRY_AT(skip_value(r, depth), "%s." CARNOT_VIEW_FMT, message->name, CARNOT_VIEW_ARG(name));
  if (!message->unknown) return NULL;
  void* item;
  CARNOT_TRY(carnot_pb_extend(r->store, message->unknown, out_message, 1, &item));
  *(carnot_pb_unknown*)item = (carnot_pb_unknown){0, name, {start, (size_t)(r->at - start)}};
  return NULL;
}

static carnot_status* read_message(reader* r, const carnot_pb_message* message, char close,
                                   int depth, void* out_message) {
  if (depth > CARNOT_PB_MAX_DEPTH)
    return TEXT_ERROR(r, "messages nested deeper than %d", CARNOT_PB_MAX_DEPTH);
  for (;;) {
    char c = peek(r);
    if (c == close) {
      if (c) r->at++;
      return NULL;
    }
    carnot_strview name = read_word(r);
    if (name.size == 0) return TEXT_ERROR(r, "a field of %s belongs here", message->name);
    const carnot_pb_field* field = NULL;
    for (size_t i = 0; !field && i < message->field_count; i++) {
      if (carnot_view_is(name, message->fields[i].name)) field = &message->fields[i];
    }
    if (field) {
      CARNOT_TRY_AT(read_field(r, message, field, depth, out_message), "%s.%s", message->name,
                    field->name);
    } else {
      CARNOT_TRY(read_unknown(r, message, name, depth, out_message));
    }
    if (!accept(r, ',')) accept(r, ';');
  }
}

carnot_status* carnot_pb_read_text(const carnot_pb_message* message, const char* text, size_t size,
                                   carnot_arena* arena, void* out_message) {
  carnot_pb_store store = {arena, carnot_pb_allowance(size), {NULL, 0}};
  memset(out_message, 0, message->size);
  reader r = {text, text + size, 1, text, &store};
  return read_message(&r, message, 0, 0, out_message);
}
