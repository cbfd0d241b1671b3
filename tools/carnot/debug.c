// carnot debug: where a wrong result comes from. The command, and its form compare.
#include "debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "log.h"

const cli_flag cli_debug_flags[] = {
    {"input", CLI_VALUE, CLI_WORKS, "NAME=FILE; made-up values where none is given"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x…: shapes of the inputs"},
    {"rtol", CLI_VALUE, CLI_WORKS, "right is |got - wanted| <= atol + rtol * |wanted| (1e-4)"},
    {"atol", CLI_VALUE, CLI_WORKS, "see --rtol (1e-4)"},
    {"mean", CLI_VALUE, CLI_WORKS, "A,B,C: pictures become x = (pixel - mean) * scale"},
    {"scale", CLI_VALUE, CLI_WORKS, "A,B,C: see --mean"},
    {"layout", CLI_VALUE, CLI_WORKS, "nchw or nhwc, of pictures; guessed from the shape"},
    {"against", CLI_VALUE, CLI_WORKS,
     "a folder of tensors saved as .npy by another program, instead of the reference kernels"},
    {"at", CLI_VALUE, CLI_WORKS, "TENSOR,…: where split cuts the model"},
    {"output-dir", CLI_VALUE, CLI_WORKS, "where reduce and split write their models"},
    {"each", CLI_NO_VALUE, CLI_WORKS,
     "precision tries the layers one by one; with --int8 sorted by the error"},
    {"json", CLI_NO_VALUE, CLI_WORKS, "compare prints one JSON object, for report --errors"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

void debug_print_verdict(bool fails) {
  printf("%s%-4s%s", cli_color_code(stdout, fails ? CLI_RED : CLI_GREEN), fails ? "FAIL" : "ok",
         cli_color_code(stdout, CLI_PLAIN));
}

static void print_row(const debug_row* row) {
  debug_print_verdict(row->fails);
  printf(" %10.3g %10.3g %12.9f  %-28s %s\n", row->difference.max_abs, row->difference.max_rel,
         row->difference.cosine, row->tactic, row->step);
}

static void print_table(const debug_rows* rows) {
  printf("%-4s %10s %10s %12s  %-28s layer\n", "", "max abs", "max rel", "cosine", "tactic");
  for (size_t i = 0; i < rows->count; i++) print_row(&rows->items[i]);
}

static void print_json(const debug_case* c, const debug_rows* rows) {
  bool passed = true;
  json_t* layers = json_array();
  for (size_t i = 0; i < rows->count; i++) {
    const debug_row* row = &rows->items[i];
    json_t* layer = cli_tensor_diff_json(row->step, &row->difference);
    json_object_set_new(layer, "tensor", json_string(row->value));
    json_object_set_new(layer, "tactic", json_string(row->tactic));
    json_array_append_new(layers, layer);
    passed = passed && !row->fails;
  }
  json_t* root = json_pack("{s:f,s:f,s:b,s:o}", "rtol", c->rtol, "atol", c->atol, "passed", passed,
                           "layers", layers);
  json_dumpf(root, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(root);
}

carnot_status* debug_compare(debug_case* c) {
  debug_rows rows = {0};
  cli_tensor_diff worst;
  bool fails, json = cli_flag_set(c->flags, "json");
  carnot_status* status = debug_run(c, c->path, &c->build, &rows, &worst, &fails);
  const debug_row* first = NULL;
  size_t failing = 0;
  if (!status && json) print_json(c, &rows);
  if (!status && !json) print_table(&rows);
  for (size_t i = 0; !status && i < rows.count; i++) {
    failing += rows.items[i].fails;
    if (rows.items[i].fails && !first) first = &rows.items[i];
  }
  if (!status && !rows.count)
    status = CLI_ERROR(NOT_FOUND, "no tensor of the engine is known by name on the other side");
  if (!status && first)
    status = CLI_ERROR(FAILED_PRECONDITION,
                       CLI_DIFFERENT
                       "%zu of %zu layers are outside atol %g + rtol %g * |wanted|; the first is "
                       "%s (tensor %s, tactic %s): element %lld is %.9g, wanted %.9g",
                       failing, rows.count, c->atol, c->rtol, first->step, first->value,
                       first->tactic, (long long)first->difference.worst, first->difference.worst_a,
                       first->difference.worst_b);
  if (!status && !json) printf("%zu layers agree\n", rows.count);
  free(rows.items);
  return status;
}

static const struct {
  const char* name;
  carnot_status* (*run)(debug_case* c);
} kWhat[] = {{"compare", debug_compare},   {"passes", debug_passes}, {"precision", debug_precision},
             {"backends", debug_backends}, {"reduce", debug_reduce}, {"split", debug_split}};
enum { kWhatCount = sizeof(kWhat) / sizeof(kWhat[0]) };

carnot_status* cli_debug(cli_flags* flags) {
  const char* what = cli_word(flags, 0);
  int chosen = 0;
  while (what && chosen < kWhatCount && strcmp(kWhat[chosen].name, what) != 0) chosen++;
  CLI_CHECK(what && chosen < kWhatCount, INVALID_ARGUMENT,
            "usage: carnot debug compare|passes|precision|backends|reduce|split MODEL");
  CLI_CHECK(kWhat[chosen].run == debug_compare || !cli_flag_set(flags, "json"), INVALID_ARGUMENT,
            "usage: --json is for carnot debug compare");
  debug_case* c = calloc(1, sizeof(*c));
  if (!c) return CLI_NO_MEMORY(sizeof(*c), "a case");
  carnot_status* status = debug_open(flags, c);
  if (!status) status = kWhat[chosen].run(c);
  debug_close(c);
  free(c);
  return status;
}
