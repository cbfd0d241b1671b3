// Operators on text. Text is UTF-8.
//   string_concat z = x y, broadcast · string_split: the parts of each text, filled up with "", and
//   how many there are string_normalizer: stop words taken out, case changed · regex_full_match:
//   whether the whole text fits the pattern
// The pattern is read by PCRE2 in UTF mode: all of RE2's syntax but \C, \pN classes of Unicode
// scripts by long names and (?P=…) mean the same; back-references and look-around, which RE2
// refuses, are accepted; matching time is bounded by a limit instead of being linear. Source: ONNX
// StringConcat-20, StringSplit-20, StringNormalizer-10, RegexFullMatch-20.
#include <locale.h>
#include <stdio.h>
#include <wctype.h>

#include "ops/codecs.h"
#include "ops/infer_help.h"
#include "ops/util.h"

static carnot_status* text_input(const carnot_infer* infer, int i, const carnot_type** out_type) {
  CARNOT_TRY(carnot_infer_tensor(infer, i, out_type));
  CARNOT_CHECK((*out_type)->dtype == CARNOT_DTYPE_STRING, INVALID_MODEL,
               "input %d has type %s, must be text", i, carnot_dtype_name((*out_type)->dtype));
  return NULL;
}

static const carnot_strview* texts(const carnot_tensor* t) { return t->data; }

// ---- string_concat ----

static carnot_status* infer_concat(carnot_infer* infer) {
  const carnot_type *x, *y;
  CARNOT_TRY(text_input(infer, 0, &x));
  CARNOT_TRY(text_input(infer, 1, &y));
  carnot_type out = *x;
  CARNOT_TRY(carnot_infer_broadcast(infer, &out, y));
  carnot_infer_set(infer, 0, CARNOT_DTYPE_STRING, out.rank, out.dims);
  return NULL;
}

// The index in the operand |x| of element |index| of an output of |dims|.
static int64_t broadcast_at(const carnot_tensor* x, const int64_t* dims, int rank, int64_t index) {
  int64_t at = 0, stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    int64_t i = index % dims[d];
    index /= dims[d];
    int from = d - (rank - x->rank);
    if (from < 0) continue;
    if (x->dims[from] != 1) at += i * stride;
    stride *= x->dims[from];
  }
  return at;
}

static carnot_status* run_concat(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *y = carnot_call_in(call, 1);
  carnot_tensor* z = carnot_call_out(call, 0);
  if (!z) return NULL;
  int64_t count = carnot_tensor_count(z);
  for (int64_t i = 0; i < count; i++) {
    carnot_strview a = texts(x)[broadcast_at(x, z->dims, z->rank, i)];
    carnot_strview b = texts(y)[broadcast_at(y, z->dims, z->rank, i)];
    void* memory;
    CARNOT_TRY(carnot_call_alloc(call, a.size + b.size, &memory));
    if (a.size) memcpy(memory, a.data, a.size);
    if (b.size) memcpy((char*)memory + a.size, b.data, b.size);
    ((carnot_strview*)z->data)[i] = (carnot_strview){memory, a.size + b.size};
  }
  return NULL;
}

// ---- string_split ----

static carnot_status* infer_split(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(text_input(infer, 0, &x));
  carnot_sym dims[CARNOT_MAX_RANK];
  CARNOT_CHECK(x->rank < CARNOT_MAX_RANK, UNSUPPORTED,
               "%d dimensions where at most %d are supported", x->rank + 1, CARNOT_MAX_RANK);
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  if (x->rank >= 0) dims[x->rank] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, 0, CARNOT_DTYPE_STRING, x->rank < 0 ? -1 : x->rank + 1, dims);
  return carnot_infer_like(infer, 1, 0, CARNOT_DTYPE_I64);
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Takes the next part off the front of |rest|; false when there is none. Without delimiter runs of
// blanks separate.
static bool next_part(carnot_strview* rest, carnot_strview delimiter, bool last,
                      carnot_strview* out_part) {
  if (delimiter.size == 0) {
    while (rest->size && is_blank(*rest->data)) rest->data++, rest->size--;
    if (rest->size == 0) return false;
    size_t end = 0;
    while (end < rest->size && (last || !is_blank(rest->data[end]))) end++;
    *out_part = (carnot_strview){rest->data, end};
    while (last && out_part->size && is_blank(out_part->data[out_part->size - 1])) out_part->size--;
    *rest = (carnot_strview){rest->data + end, rest->size - end};
    return true;
  }
  if (!rest->data) return false;
  const char* found = last ? NULL : memmem(rest->data, rest->size, delimiter.data, delimiter.size);
  size_t end = found ? (size_t)(found - rest->data) : rest->size;
  *out_part = (carnot_strview){rest->data, end};
  if (found)
    *rest = (carnot_strview){found + delimiter.size, rest->size - end - delimiter.size};
  else
    *rest = (carnot_strview){NULL, 0};
  return true;
}

// The number of parts; they are stored when |parts| is not NULL.
static int64_t split_text(carnot_strview text, carnot_strview delimiter, int64_t most_splits,
                          carnot_strview* parts) {
  int64_t count = 0;
  carnot_strview part;
  if (text.size == 0) return 0;
  while (next_part(&text, delimiter, count == most_splits, &part)) {
    if (parts) parts[count] = part;
    count++;
  }
  return count;
}

static carnot_status* run_split(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_strview delimiter = carnot_attr_text(call->row, call->attrs, "delimiter");
  int64_t most =
      carnot_attr_has(call->attrs, "maxsplit") ? carnot_call_int(call, "maxsplit") : INT64_MAX;
  int64_t count = carnot_tensor_count(x), wide = 0, dims[CARNOT_MAX_RANK];
  carnot_tensor* counts = carnot_call_out(call, 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t parts = split_text(texts(x)[i], delimiter, most, NULL);
    if (counts) ((int64_t*)counts->data)[i] = parts;
    wide = carnot_max_i64(wide, parts);
  }
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  dims[x->rank] = wide;
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_STRING, x->rank + 1, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  for (int64_t i = 0; y && i < count; i++) {
    carnot_strview* row = (carnot_strview*)y->data + i * wide;
    int64_t parts = split_text(texts(x)[i], delimiter, most, row);
    // The parts point into the input, whose text may not live as long.
    for (int64_t p = 0; p < parts; p++) CARNOT_TRY(carnot_call_text(call, row[p], &row[p]));
    for (int64_t p = parts; p < wide; p++) row[p] = (carnot_strview){"", 0};
  }
  return NULL;
}

// ---- string_normalizer ----

enum { KEEP_CASE, LOWER, UPPER };

// One code point of UTF-8 from |at|; an invalid byte is returned as it is.
static wint_t decode(const char** at, const char* end) {
  const uint8_t* p = (const uint8_t*)*at;
  int length = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 1;
  if (end - *at < length) length = 1;
  static const uint8_t kMask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  wint_t point = length == 1 ? *p : *p & kMask[length];
  for (int i = 1; i < length; i++) point = point << 6 | (p[i] & 0x3f);
  *at += length;
  return point;
}

static size_t encode(wint_t point, char* out) {
  if (point < 0x80) {
    out[0] = (char)point;
    return 1;
  }
  int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (int i = length - 1; i > 0; i--) {
    out[i] = (char)(0x80 | (point & 0x3f));
    point >>= 6;
  }
  out[0] = (char)(kLead[length] | point);
  return (size_t)length;
}

static carnot_status* change_case(const carnot_call* call, carnot_strview text, int how,
                                  locale_t locale, carnot_strview* out) {
  *out = text;
  if (how == KEEP_CASE) return carnot_call_text(call, text, out);
  void* memory;
  // A letter may grow by the change of case, by no more than to four bytes.
  CARNOT_TRY(carnot_call_alloc(call, text.size * 4 + 4, &memory));
  char* to = memory;
  for (const char* at = text.data; at < text.data + text.size;) {
    wint_t point = decode(&at, text.data + text.size);
    point = how == LOWER ? towlower_l(point, locale) : towupper_l(point, locale);
    to += encode(point, to);
  }
  *out = (carnot_strview){memory, (size_t)(to - (char*)memory)};
  return NULL;
}

static carnot_status* infer_normalizer(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(text_input(infer, 0, &x));
  CARNOT_CHECK(x->rank < 0 || x->rank == 1 || x->rank == 2, INVALID_MODEL,
               "rank %d, must be 1 or 2", x->rank);
  carnot_sym dims[2] = {carnot_sym_of(1), carnot_sym_of(1)};
  if (x->rank > 0) dims[x->rank - 1] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, 0, CARNOT_DTYPE_STRING, x->rank, dims);
  return NULL;
}

static carnot_status* normalize(carnot_call* call, locale_t locale) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  const carnot_attr* stops = carnot_attrs_find(call->attrs, "stopwords");
  bool exact = carnot_call_int(call, "is_case_sensitive") != 0;
  int how = carnot_call_is(call, "case_change_action", "LOWER")   ? LOWER
            : carnot_call_is(call, "case_change_action", "UPPER") ? UPPER
                                                                  : KEEP_CASE;
  CARNOT_CHECK(x->rank == 1 || (x->rank == 2 && x->dims[0] == 1), INVALID_ARGUMENT,
               "the shape must be [C] or [1, C]");
  size_t count = (size_t)carnot_tensor_count(x), stop_count = stops ? stops->count : 0, kept = 0;
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, (count + stop_count + 1) * sizeof(carnot_strview), &memory));
  carnot_strview *result = memory, *words = result + count + 1;
  for (size_t s = 0; s < stop_count; s++) {
    CARNOT_TRY(change_case(call, stops->strings[s], exact ? KEEP_CASE : LOWER, locale, &words[s]));
  }
  for (size_t i = 0; i < count; i++) {
    carnot_strview word;
    CARNOT_TRY(change_case(call, texts(x)[i], exact ? KEEP_CASE : LOWER, locale, &word));
    bool stop = false;
    for (size_t s = 0; s < stop_count && !stop; s++) stop = carnot_view_equal(word, words[s]);
    if (!stop) CARNOT_TRY(change_case(call, texts(x)[i], how, locale, &result[kept++]));
  }
  // Nothing left is one empty text.
  if (kept == 0) result[kept++] = (carnot_strview){"", 0};
  int64_t dims[2] = {1, 1};
  dims[x->rank - 1] = (int64_t)kept;
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_STRING, x->rank, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y) memcpy(y->data, result, kept * sizeof(*result));
  return NULL;
}

static carnot_status* run_normalizer(carnot_call* call) {
  // The requested locale decides how letters change; where it is not installed, that of Unicode in
  // general does.
  carnot_strview name = carnot_attr_text(call->row, call->attrs, "locale");
  char wanted[64];
  snprintf(wanted, sizeof(wanted), CARNOT_VIEW_FMT ".UTF-8", CARNOT_VIEW_ARG(name));
  locale_t locale = newlocale(LC_CTYPE_MASK, wanted, (locale_t)0);
  if (!locale) locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  if (!locale) locale = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
  CARNOT_CHECK(locale, UNSUPPORTED, "the system has no locale");
  carnot_status* status = normalize(call, locale);
  freelocale(locale);
  return status;
}

// ---- regex_full_match ----

static carnot_status* infer_regex(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(text_input(infer, 0, &x));
  return carnot_infer_like(infer, 0, 0, CARNOT_DTYPE_BOOL);
}

static carnot_status* match_all(carnot_call* call, const carnot_codecs* codecs, void* pattern) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  int64_t count = y ? carnot_tensor_count(x) : 0;
  for (int64_t i = 0; i < count; i++) {
    int found = codecs->pattern_match(pattern, texts(x)[i].data, texts(x)[i].size);
    CARNOT_CHECK(found >= 0, OUT_OF_RANGE, "text %lld takes too long to match", (long long)i);
    ((uint8_t*)y->data)[i] = found == 1;
  }
  return NULL;
}

static carnot_status* run_regex(carnot_call* call) {
  carnot_strview text = carnot_attr_text(call->row, call->attrs, "pattern");
  const carnot_codecs* codecs;
  CARNOT_TRY(carnot_codecs_open(&codecs));
  char why[256];
  void* pattern = codecs->pattern_compile(text.data, text.size, why, sizeof(why));
  CARNOT_CHECK(pattern, INVALID_MODEL, "pattern \"" CARNOT_VIEW_FMT "\", %s", CARNOT_VIEW_ARG(text),
               why);
  carnot_status* status = match_all(call, codecs, pattern);
  codecs->pattern_free(pattern);
  return status;
}

// ---- rows ----

static const carnot_attr_spec kSplit[] = {{"delimiter", CARNOT_ATTR_STRING, false, 0, "", NULL},
                                          {"maxsplit", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                          {0}};
static const carnot_attr_spec kNormalizer[] = {
    CARNOT_SPEC_WORD("case_change_action", "NONE", "NONE LOWER UPPER"),
    {"is_case_sensitive", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    {"locale", CARNOT_ATTR_STRING, false, 0, "en_US", NULL},
    {"stopwords", CARNOT_ATTR_STRINGS, false, 0, NULL, NULL},
    {0}};
static const carnot_attr_spec kRegex[] = {{"pattern", CARNOT_ATTR_STRING, true, 0, NULL, NULL},
                                          {0}};

const carnot_op_row carnot_op_string_concat = {
    .name = "string_concat",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_concat,
    .reference = run_concat,
    .source = "ONNX StringConcat-20",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_string_split = {
    .name = "string_split",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kSplit,
    .infer = infer_split,
    .reference = run_split,
    .source = "ONNX StringSplit-20",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_string_normalizer = {
    .name = "string_normalizer",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kNormalizer,
    .infer = infer_normalizer,
    .reference = run_normalizer,
    .source = "ONNX StringNormalizer-10",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_regex_full_match = {
    .name = "regex_full_match",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kRegex,
    .infer = infer_regex,
    .reference = run_regex,
    .source = "ONNX RegexFullMatch-20",
    .layer_type = "REFERENCE",
};
