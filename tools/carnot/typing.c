// Flags of weak typing: trtexec's names and grammar.
#include <stdlib.h>

#include "cli.h"

static const struct {
  const char* name;
  carnot_dtype dtype;
} kTypes[] = {{"fp32", CARNOT_DTYPE_F32},     {"fp16", CARNOT_DTYPE_F16},
              {"bf16", CARNOT_DTYPE_BF16},    {"int32", CARNOT_DTYPE_I32},
              {"int64", CARNOT_DTYPE_I64},    {"int8", CARNOT_DTYPE_I8},
              {"uint8", CARNOT_DTYPE_U8},     {"bool", CARNOT_DTYPE_BOOL},
              {"fp8", CARNOT_DTYPE_F8E4M3FN}, {"int4", CARNOT_DTYPE_I4}};
enum { kTypeCount = sizeof(kTypes) / sizeof(kTypes[0]) };

static carnot_status* parse_type(const char* flag, const char* text, size_t length,
                                 carnot_dtype* out) {
  for (int i = 0; i < kTypeCount; i++)
    if (strlen(kTypes[i].name) == length && strncmp(kTypes[i].name, text, length) == 0) {
      *out = kTypes[i].dtype;
      return NULL;
    }
  return CARNOT_ERROR(INVALID_ARGUMENT,
                      "--%s: '%.*s' is no type; fp32, fp16, bf16, int32, int64, int8, uint8, bool "
                      "are",
                      flag, (int)length, text);
}

// "name:type+type" up to |length|; the name may stand in single quotes.
static carnot_status* parse_request(const char* flag, const char* text, size_t length,
                                    carnot_arena* arena, carnot_precision_request* out) {
  const char *colon = NULL, *end = text + length;
  for (const char* at = text; at < end; at++)
    if (*at == ':') colon = at;
  CARNOT_CHECK(colon && colon > text && colon + 1 < end, INVALID_ARGUMENT,
               "--%s: '%.*s' is no request: LAYER:TYPE is wanted", flag, (int)length, text);
  const char *name = text, *name_end = colon;
  if (name_end - name >= 2 &&
      ((name[0] == '\'' && name_end[-1] == '\'') || (name[0] == '"' && name_end[-1] == '"')))
    name++, name_end--;
  *out = (carnot_precision_request){.pattern =
                                        carnot_arena_text(arena, name, (size_t)(name_end - name))};
  for (const char* at = colon + 1; at < end;) {
    size_t size = strcspn(at, "+,");
    if (at + size > end) size = (size_t)(end - at);
    CARNOT_CHECK(out->type_count < 8, INVALID_ARGUMENT, "--%s: more than 8 types for layer %s",
                 flag, out->pattern);
    CARNOT_TRY(parse_type(flag, at, size, &out->types[out->type_count++]));
    at += size + 1;
  }
  return NULL;
}

static carnot_status* parse_requests(const char* flag, const char* text, carnot_arena* arena,
                                     const carnot_precision_request** out, size_t* out_count) {
  size_t most = 1;
  for (const char* at = text; *at; at++) most += *at == ',';
  carnot_precision_request* requests = CARNOT_NEW_ARRAY(arena, carnot_precision_request, most);
  size_t count = 0;
  while (*text) {
    size_t length = 0;
    char quote = 0;  // a quoted name may hold commas
    while (text[length] && (quote || text[length] != ',')) {
      char c = text[length++];
      if (quote == c)
        quote = 0;
      else if (!quote && (c == '\'' || c == '"'))
        quote = c;
    }
    CARNOT_TRY(parse_request(flag, text, length, arena, &requests[count++]));
    text += length + (text[length] == ',');
  }
  *out = requests;
  *out_count = count;
  return NULL;
}

// "fp16:chw,fp32:chw"; the layout of the network's own tensors is theirs.
static carnot_status* parse_formats(const char* flag, const char* text, carnot_arena* arena,
                                    const carnot_dtype** out, size_t* out_count) {
  size_t most = 1;
  for (const char* at = text; *at; at++) most += *at == ',';
  carnot_dtype* types = CARNOT_NEW_ARRAY(arena, carnot_dtype, most);
  size_t count = 0;
  while (*text) {
    size_t length = strcspn(text, ","), word = strcspn(text, ":,");
    const char* layout = word < length ? text + word + 1 : text;
    size_t layout_length = (size_t)(text + length - layout);
    CARNOT_CHECK(layout_length == 3 && strncmp(layout, "chw", 3) == 0, UNSUPPORTED,
                 "--%s: layout '%.*s' is not there yet, only chw is", flag, (int)layout_length,
                 layout);
    if (word < length) CARNOT_TRY(parse_type(flag, text, word, &types[count]));
    count++;
    text += length + (text[length] == ',');
  }
  *out = types;
  *out_count = count;
  return NULL;
}

const char* const cli_typing_flags[] = {CLI_TYPING_FLAGS, NULL};

carnot_status* cli_typing_flag(const char* name, const char* value, carnot_arena* arena,
                               cli_typing* t) {
  carnot_precision_constraints* typing = &t->typing;
  if (strcmp(name, "fp16") == 0) {
    typing->f16 = true;
  } else if (strcmp(name, "bf16") == 0) {
    typing->bf16 = true;
  } else if (strcmp(name, "best") == 0) {
    typing->f16 = typing->bf16 = true;
    fprintf(stderr, "--best takes fp32, fp16 and bf16; int8, fp8 and int4 are not there yet\n");
  } else if (strcmp(name, "stronglyTyped") == 0) {
    typing->strong = true;
  } else if (strcmp(name, "precisionConstraints") == 0) {
    static const char* const kWords[] = {"none", "prefer", "obey"};
    int chosen = 0;
    while (chosen < 3 && strcmp(value, kWords[chosen]) != 0) chosen++;
    CARNOT_CHECK(chosen < 3, INVALID_ARGUMENT,
                 "--precisionConstraints is '%s', must be one of none, prefer, obey", value);
    typing->constraints = (carnot_constraint_mode)chosen;
    t->constraints_given = true;
  } else if (strcmp(name, "layerPrecisions") == 0) {
    CARNOT_TRY(parse_requests(name, value, arena, &typing->layers, &typing->layer_count));
  } else if (strcmp(name, "layerOutputTypes") == 0) {
    CARNOT_TRY(parse_requests(name, value, arena, &typing->outputs, &typing->output_count));
  } else if (strcmp(name, "inputIOFormats") == 0) {
    CARNOT_TRY(parse_formats(name, value, arena, &typing->input_types, &typing->input_type_count));
  } else if (strcmp(name, "outputIOFormats") == 0) {
    CARNOT_TRY(
        parse_formats(name, value, arena, &typing->result_types, &typing->result_type_count));
  }
  return NULL;
}

void cli_typing_finish(cli_typing* t) {
  carnot_precision_constraints* typing = &t->typing;
  if (!(typing->layer_count || typing->output_count) || t->constraints_given) return;
  fprintf(stderr, "--layerPrecisions and --layerOutputTypes imply --precisionConstraints=prefer\n");
  typing->constraints = CARNOT_CONSTRAINTS_PREFER;
}
