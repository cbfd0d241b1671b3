// The grammar of shapes on the command line.
#include "shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One entry "name:1x3x224"; the dimensions behind the last ':' may be empty for a scalar.
static carnot_status* parse_entry(const char* text, size_t length, cli_shape* out) {
  const char* colon = NULL;
  for (const char* at = text; at < text + length; at++)
    if (*at == ':') colon = at;
  CLI_CHECK(colon && colon > text, INVALID_ARGUMENT,
            "'%.*s' is no shape: NAME:1x3x224x224 is wanted", (int)length, text);
  const char *name = text, *name_end = colon;
  if (name_end - name >= 2 && name[0] == '\'' && name_end[-1] == '\'') name++, name_end--;
  out->name = strndup(name, (size_t)(name_end - name));
  if (!out->name) return CLI_NO_MEMORY(length, "a shape");
  out->dims = (carnot_dims){0};
  const char* at = colon + 1;
  const char* end = text + length;
  while (at < end) {
    char* stop;
    long long dim = strtoll(at, &stop, 10);
    CLI_CHECK(stop != at && stop <= end && dim >= 0 && (stop == end || *stop == 'x'),
              INVALID_ARGUMENT, "'%.*s': '%.*s' is no list of dimensions like 1x3x224x224",
              (int)length, text, (int)(end - colon - 1), colon + 1);
    CLI_CHECK(out->dims.rank < CARNOT_MAX_RANK, INVALID_ARGUMENT,
              "'%.*s' has more than %d dimensions", (int)length, text, CARNOT_MAX_RANK);
    out->dims.d[out->dims.rank++] = dim;
    at = stop + (stop < end);
  }
  return NULL;
}

carnot_status* cli_shapes_parse(const char* text, cli_shapes* out) {
  *out = (cli_shapes){.count = 0};
  while (text && *text) {
    // A quoted name may hold commas.
    size_t length = 0;
    bool quoted = false;
    while (text[length] && (quoted || text[length] != ',')) quoted ^= text[length++] == '\'';
    CLI_CHECK(out->count < sizeof(out->items) / sizeof(out->items[0]), INVALID_ARGUMENT,
              "more than %zu shapes", sizeof(out->items) / sizeof(out->items[0]));
    CLI_TRY(parse_entry(text, length, &out->items[out->count]));
    out->count++;
    text += length + (text[length] == ',');
  }
  return NULL;
}

// A name may hold one '*', which matches any text.
static bool name_matches(const char* pattern, const char* name) {
  const char* star = strchr(pattern, '*');
  if (!star) return strcmp(pattern, name) == 0;
  size_t before = (size_t)(star - pattern), after = strlen(star + 1), length = strlen(name);
  return length >= before + after && strncmp(pattern, name, before) == 0 &&
         strcmp(star + 1, name + length - after) == 0;
}

bool cli_shape_matches(const cli_shape* shape, const char* name) {
  return name_matches(shape->name, name);
}

const carnot_dims* cli_shapes_find(const cli_shapes* shapes, const char* name) {
  for (size_t i = 0; shapes && i < shapes->count; i++)
    if (name_matches(shapes->items[i].name, name)) return &shapes->items[i].dims;
  return NULL;
}

void cli_shape_text(const carnot_dims* dims, char* out, size_t size) {
  out[0] = 0;
  for (int d = 0; d < dims->rank; d++)
    snprintf(out + strlen(out), size - strlen(out), d ? "x%lld" : "%lld", (long long)dims->d[d]);
}

void cli_shapes_free(cli_shapes* shapes) {
  for (size_t i = 0; i < shapes->count; i++) free(shapes->items[i].name);
  shapes->count = 0;
}
