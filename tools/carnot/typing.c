// Flags of weak typing: trtexec's names and grammar.
#include <string.h>

#include "build_options.h"

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
  return CLI_ERROR(INVALID_ARGUMENT,
                   "--%s: '%.*s' is no type; fp32, fp16, bf16, int32, int64, int8, uint8, bool "
                   "are",
                   flag, (int)length, text);
}

// "name:type+type" up to |length|; the name may be in single quotes.
static carnot_status* parse_request(const char* flag, const char* text, size_t length,
                                    cli_arena* arena, cli_type_request* out) {
  const char *colon = NULL, *end = text + length;
  for (const char* at = text; at < end; at++)
    if (*at == ':') colon = at;
  CLI_CHECK(colon > text && colon + 1 < end, INVALID_ARGUMENT,
            "--%s: '%.*s' is no request: LAYER:TYPE is wanted", flag, (int)length, text);
  const char *name = text, *name_end = colon;
  if (name_end - name >= 2 &&
      ((name[0] == '\'' && name_end[-1] == '\'') || (name[0] == '"' && name_end[-1] == '"')))
    name++, name_end--;
  *out = (cli_type_request){.pattern = cli_arena_text(arena, name, (size_t)(name_end - name))};
  for (const char* at = colon + 1; at < end;) {
    size_t size = strcspn(at, "+,");
    if (at + size > end) size = (size_t)(end - at);
    CLI_CHECK(out->type_count < 8, INVALID_ARGUMENT, "--%s: more than 8 types for layer %s", flag,
              out->pattern);
    CLI_TRY(parse_type(flag, at, size, &out->types[out->type_count++]));
    at += size + 1;
  }
  return NULL;
}

static carnot_status* parse_requests(const cli_build_options* options, const char* flag,
                                     const char* text, cli_arena* arena,
                                     const cli_type_request** out, size_t* out_count) {
  size_t most = 1;
  for (const char* at = text; *at; at++) most += *at == ',';
  cli_type_request* requests = CLI_NEW_ARRAY(arena, cli_type_request, most);
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
    if (memchr(text, ':', length))
      CLI_TRY(parse_request(flag, text, length, arena, &requests[count++]));
    else
      cli_build_warn(options, "--%s: '%.*s' has no effect: it names a layer but no type", flag,
                     (int)length, text);
    text += length + (text[length] == ',');
  }
  *out = requests;
  *out_count = count;
  return NULL;
}

// "chw+hwc8" up to |length|: the set of formats.
static carnot_status* parse_layouts(const char* flag, const char* text, size_t length,
                                    uint32_t* out) {
  *out = 0;
  for (const char *at = text, *end = text + length; at <= end;) {
    char name[16] = "";
    size_t size = strcspn(at, "+,");
    if (size < sizeof(name)) memcpy(name, at, size);
    carnot_tensor_format format = carnot_tensor_format_find(name);
    CLI_CHECK(format < CARNOT_TENSOR_FORMAT_COUNT && format != CARNOT_TENSOR_DLA_LINEAR &&
                  format != CARNOT_TENSOR_DLA_HWC4,
              INVALID_ARGUMENT,
              "--%s: layout '%.*s' is not available; chw, chw2, chw4, chw16, chw32, hwc, hwc8, "
              "hwc16, dhwc, dhwc8, cdhw32 are",
              flag, (int)size, at);
    *out |= 1u << format;
    at += size + 1;
  }
  return NULL;
}

// "fp16:chw,fp32:hwc8+chw": types, and the layouts in memory that are allowed.
static carnot_status* parse_formats(const char* flag, const char* text, cli_arena* arena,
                                    const carnot_dtype** out_types, const uint32_t** out_layouts,
                                    size_t* out_count) {
  size_t most = 1;
  for (const char* at = text; *at; at++) most += *at == ',';
  carnot_dtype* types = CLI_NEW_ARRAY(arena, carnot_dtype, most);
  uint32_t* layouts = CLI_NEW_ARRAY(arena, uint32_t, most);
  size_t count = 0;
  while (*text) {
    size_t length = strcspn(text, ","), word = strcspn(text, ":,");
    const char* layout = word < length ? text + word + 1 : text;
    CLI_TRY(parse_layouts(flag, layout, (size_t)(text + length - layout), &layouts[count]));
    if (word < length) CLI_TRY(parse_type(flag, text, word, &types[count]));
    count++;
    text += length + (text[length] == ',');
  }
  *out_types = types;
  *out_layouts = layouts;
  *out_count = count;
  return NULL;
}

static carnot_status* read_lists(cli_flags* flags, const cli_build_options* options,
                                 cli_typing* out) {
  cli_arena* arena = &flags->arena;
  const char* layers = cli_flag_text(flags, "layerPrecisions");
  const char* outputs = cli_flag_text(flags, "layerOutputTypes");
  const char* inputs = cli_flag_text(flags, "inputIOFormats");
  const char* results = cli_flag_text(flags, "outputIOFormats");
  if (layers)
    CLI_TRY(
        parse_requests(options, "layerPrecisions", layers, arena, &out->layers, &out->layer_count));
  if (outputs)
    CLI_TRY(parse_requests(options, "layerOutputTypes", outputs, arena, &out->outputs,
                           &out->output_count));
  if (inputs)
    CLI_TRY(parse_formats("inputIOFormats", inputs, arena, &out->input_types, &out->input_layouts,
                          &out->input_type_count));
  if (results)
    CLI_TRY(parse_formats("outputIOFormats", results, arena, &out->result_types,
                          &out->result_layouts, &out->result_type_count));
  return NULL;
}

carnot_status* cli_typing_flags(cli_flags* flags, cli_build_options* options) {
  cli_typing* out = &options->typing;
  bool best = cli_flag_set(flags, "best");
  int constraints = -1;
  *out = (cli_typing){.f16 = best || cli_flag_set(flags, "fp16"),
                      .bf16 = best || cli_flag_set(flags, "bf16"),
                      .strong = cli_flag_set(flags, "stronglyTyped")};
  if (best && !cli_flag_set(flags, "calib") && !cli_flag_set(flags, "calibData"))
    cli_build_warn(options,
                   "--best takes fp32, fp16 and bf16: int8 needs ranges by --calib or --calibData");
  CLI_TRY(cli_flag_choice(flags, "precisionConstraints",
                          (const char* const[]){"none", "prefer", "obey", NULL}, &constraints));
  CLI_TRY(read_lists(flags, options, out));
  if (constraints >= 0) {
    out->constraints = (cli_constraints)constraints;
  } else if (out->layer_count || out->output_count) {
    cli_build_warn(options,
                   "--layerPrecisions and --layerOutputTypes imply --precisionConstraints=prefer");
    out->constraints = CLI_PREFER_TYPES;
  }
  return NULL;
}
