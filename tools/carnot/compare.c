// carnot compare A B: two models or engines on the same inputs, or one against saved outputs.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli.h"
#include "session.h"

const cli_flag cli_compare_flags[] = {
    {"input", CLI_VALUE, CLI_WORKS, "NAME=FILE; made-up values where none is given"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x…: shapes of the inputs"},
    {"rtol", CLI_VALUE, CLI_WORKS, "pass when |a-b| <= atol + rtol*|b| everywhere (1e-5)"},
    {"atol", CLI_VALUE, CLI_WORKS, "see --rtol (1e-5)"},
    {"mean", CLI_VALUE, CLI_WORKS, "A,B,C: pictures become x = (pixel - mean) * scale"},
    {"scale", CLI_VALUE, CLI_WORKS, "A,B,C: see --mean"},
    {"layout", CLI_VALUE, CLI_WORKS, "nchw or nhwc, of pictures; guessed from the shape"},
    {"json", CLI_NO_VALUE, CLI_WORKS, "print one JSON object"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

typedef struct tolerance {
  double rtol, atol;
  bool json;
} tolerance;

// Output |info| of the second side: of the engine, or from its file in |folder|.
static carnot_status* second_output(cli_session* second, const char* folder,
                                    const carnot_tensor_info* info, cli_arena* arena,
                                    const carnot_data** out) {
  if (!folder) return carnot_context_output_value(second->context, info->name, out);
  char path[4096], safe[1024];
  cli_safe_name(info->name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.npy", folder, safe);
  return cli_tensor_read(path, info, NULL, NULL, arena, out);
}

static void print_diff(const char* name, const cli_tensor_diff* d) {
  printf("%s: max abs %.3g, max rel %.3g, cosine %.9f; %lld of %lld outside the tolerance", name,
         d->max_abs, d->max_rel, d->cosine, (long long)d->outside, (long long)d->count);
  if (d->outside)
    printf(" (widest at element %lld: %.9g and %.9g)", (long long)d->worst, d->worst_a, d->worst_b);
  if (d->not_finite) printf("; %lld are not finite", (long long)d->not_finite);
  putchar('\n');
}

// Compares every output that is a tensor and adds to |rows|, *out_outside and *out_elements.
static carnot_status* compare_each(cli_session* first, cli_session* second, const char* folder,
                                   const tolerance* t, json_t* rows, int64_t* out_outside,
                                   int64_t* out_elements) {
  const carnot_engine* engine = first->loaded.engine;
  for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
    carnot_tensor_info info;
    const carnot_data *x, *y;
    CLI_TRY(carnot_engine_tensor_info(engine, i, &info));
    if (info.is_input) continue;
    CLI_TRY(carnot_context_output_value(first->context, info.name, &x));
    if (carnot_data_kind_of(x) != CARNOT_DATA_TENSOR) continue;
    CLI_TRY(second_output(second, folder, &info, &first->arena, &y));
    cli_tensor a = cli_tensor_of(x), b = cli_tensor_of(y);
    cli_tensor_diff d;
    CLI_TRY(cli_tensor_compare(info.name, &a, &b, t->rtol, t->atol, &d));
    *out_outside += d.outside;
    *out_elements += d.count;
    json_array_append_new(rows, cli_tensor_diff_json(info.name, &d));
    if (!t->json) print_diff(info.name, &d);
  }
  return NULL;
}

static carnot_status* compare_outputs(cli_session* first, cli_session* second, const char* folder,
                                      const tolerance* t) {
  json_t* rows = json_array();
  int64_t outside = 0, elements = 0;
  carnot_status* status = compare_each(first, second, folder, t, rows, &outside, &elements);
  size_t outputs = json_array_size(rows);
  if (!status && t->json) {
    json_t* root = json_pack("{s:f,s:f,s:b,s:O}", "rtol", t->rtol, "atol", t->atol, "passed",
                             outside == 0, "outputs", rows);
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
  }
  json_decref(rows);
  if (status) return status;
  CLI_CHECK(outputs > 0, INVALID_ARGUMENT, "there is no output to compare");
  CLI_CHECK(outside == 0, FAILED_PRECONDITION,
            CLI_DIFFERENT "%lld of %lld elements by more than atol %g + rtol %g * |b|",
            (long long)outside, (long long)elements, t->atol, t->rtol);
  return NULL;
}

// What both sides are run with.
typedef struct comparison {
  cli_shapes shapes;
  cli_image_options image;
  cli_input_files inputs;
  cli_build_options build;
  cli_session first, second;
} comparison;

static carnot_status* run_side(const char* path, const comparison* c, cli_session* out) {
  CLI_TRY(cli_session_open(path, &c->build, out));
  CLI_TRY_AT(cli_session_read(out, &c->inputs, &c->shapes, &c->image, /*random=*/true), "%s", path);
  return carnot_status_annotate(carnot_context_run(out->context), "%s", path);
}

static carnot_status* compare(cli_flags* flags, comparison* c) {
  tolerance t = {.rtol = 1e-5, .atol = 1e-5, .json = cli_flag_set(flags, "json")};
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &c->shapes));
  CLI_TRY(cli_flag_number(flags, "rtol", 0, 1e30, &t.rtol));
  CLI_TRY(cli_flag_number(flags, "atol", 0, 1e30, &t.atol));
  CLI_TRY(cli_image_flags(flags, &c->image));
  CLI_TRY(cli_input_flags(flags, &c->inputs));
  cli_build_options_init(&c->build);
  c->build.opt = &c->shapes;
  c->build.override_dynamic = c->shapes.count > 0;
  c->build.level = 1;
  CLI_TRY(cli_build_flags(flags, &c->build));
  const char *a = cli_word(flags, 0), *b = cli_word(flags, 1);
  CLI_CHECK(a && b, INVALID_ARGUMENT,
            "usage: carnot compare A B_OR_FOLDER [--input NAME=FILE …] [--rtol=X] [--atol=X]");
  struct stat facts;
  bool folder = stat(b, &facts) == 0 && S_ISDIR(facts.st_mode);
  CLI_TRY(run_side(a, c, &c->first));
  if (!folder) CLI_TRY(run_side(b, c, &c->second));
  return compare_outputs(&c->first, &c->second, folder ? b : NULL, &t);
}

carnot_status* cli_compare(cli_flags* flags) {
  comparison* c = calloc(1, sizeof(*c));
  if (!c) return CLI_NO_MEMORY(sizeof(*c), "a comparison");
  carnot_status* status = compare(flags, c);
  cli_session_close(&c->first);
  cli_session_close(&c->second);
  cli_shapes_free(&c->shapes);
  free(c);
  return status;
}
