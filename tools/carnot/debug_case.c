// The case of carnot debug: a model, its inputs, trusted tensors, and runs that are watched.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"

// ---- the case ----

static carnot_status* evaluate(debug_case* c) {
  size_t count = carnot_network_input_count(c->network);
  const carnot_data** inputs = CLI_NEW_ARRAY(&c->arena, const carnot_data*, count + 1);
  for (size_t i = 0; i < count; i++)
    inputs[i] =
        cli_session_input(&c->inputs, carnot_value_name(carnot_network_input(c->network, i)));
  return carnot_status_annotate(
      carnot_reference_create(c->network, inputs, c->build.threads, &c->reference),
      "the reference kernels");
}

static carnot_status* read_flags(cli_flags* flags, debug_case* out) {
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &out->shapes));
  out->rtol = out->atol = 1e-4;
  CLI_TRY(cli_flag_number(flags, "rtol", 0, 1e30, &out->rtol));
  CLI_TRY(cli_flag_number(flags, "atol", 0, 1e30, &out->atol));
  CLI_TRY(cli_image_flags(flags, &out->image));
  CLI_TRY(cli_input_flags(flags, &out->files));
  cli_build_options_init(&out->build);
  out->build.opt = &out->shapes;
  out->build.override_dynamic = out->shapes.count > 0;
  CLI_TRY(cli_build_flags(flags, &out->build));
  out->against = cli_flag_text(flags, "against");
  out->path = cli_word(flags, 1);
  CLI_CHECK(out->path, INVALID_ARGUMENT, "usage: carnot debug WHAT MODEL [--input NAME=FILE …]");
  return NULL;
}

carnot_status* debug_open(cli_flags* flags, debug_case* out) {
  *out = (debug_case){.flags = flags};
  CLI_TRY(read_flags(flags, out));
  CLI_TRY(cli_parse_model(out->path, &out->build, &out->network));
  cli_build_options plain;
  cli_build_options_init(&plain);
  plain.opt = &out->shapes;
  plain.override_dynamic = out->shapes.count > 0;
  plain.level = 0;
  plain.no_passes = true;
  plain.caffe_model = out->build.caffe_model;
  plain.outputs = out->build.outputs;
  plain.output_count = out->build.output_count;
  plain.inputs = out->build.inputs;
  plain.input_count = out->build.input_count;
  plain.device = "cpu";  // inputs are read here, and the reference kernels run on them
  CLI_TRY(cli_session_open(out->path, &plain, &out->inputs));
  CLI_TRY(cli_session_read(&out->inputs, &out->files, &out->shapes, &out->image,
                           /*random=*/true));
  return out->against ? NULL : evaluate(out);
}

void debug_close(debug_case* c) {
  carnot_reference_destroy(c->reference);
  cli_session_close(&c->inputs);
  carnot_network_destroy(c->network);
  cli_shapes_free(&c->shapes);
  cli_arena_deinit(&c->arena);
}

static const carnot_value* value_named(const carnot_network* network, const char* name) {
  for (size_t i = 0; i < carnot_network_input_count(network); i++) {
    const carnot_value* input = carnot_network_input(network, i);
    if (strcmp(carnot_value_name(input), name) == 0) return input;
  }
  for (const carnot_layer* l = carnot_network_first_layer(network); l; l = carnot_layer_next(l))
    for (int i = 0; i < carnot_layer_output_count(l); i++) {
      const carnot_value* output = carnot_layer_output(l, i);
      if (output && strcmp(carnot_value_name(output), name) == 0) return output;
    }
  return NULL;
}

static carnot_status* saved_tensor(debug_case* c, const char* name, const carnot_data** out_data) {
  char path[4096], safe[1024];
  cli_safe_name(name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.npy", c->against, safe);
  if (access(path, R_OK) != 0) return NULL;
  return cli_tensor_read(path, NULL, NULL, &c->image, &c->arena, out_data);
}

carnot_status* debug_wanted(debug_case* c, const char* name, const carnot_data** out_data) {
  *out_data = NULL;
  if (c->against) return saved_tensor(c, name, out_data);
  const carnot_value* value = value_named(c->network, name);
  const carnot_data* data = value ? carnot_reference_value(c->reference, value) : NULL;
  if (data && carnot_data_kind_of(data) == CARNOT_DATA_TENSOR &&
      carnot_data_dtype(data) != CARNOT_DTYPE_STRING)
    *out_data = data;
  return NULL;
}

// ---- one run, watched ----

typedef struct watcher {
  debug_case* c;
  debug_rows* rows;
} watcher;

static const char* keep(debug_case* c, const char* text) {
  return cli_arena_text(&c->arena, text, strlen(text));
}

static carnot_status* note_value(void* user, const carnot_watched_value* value) {
  watcher* w = user;
  debug_case* c = w->c;
  const carnot_data* wanted;
  cli_tensor got;
  CLI_TRY(debug_wanted(c, value->name, &wanted));
  if (!wanted) return NULL;
  cli_tensor right = cli_tensor_of(wanted);
  CLI_TRY(cli_tensor_create(value->dtype, &value->dims, &c->arena, &got));
  carnot_watched_value_copy(value, got.data);
  debug_row row = {.step = keep(c, value->layer),
                   .tactic = keep(c, value->tactic),
                   .value = keep(c, value->name)};
  CLI_TRY(cli_tensor_compare(value->name, &got, &right, c->rtol, c->atol, &row.difference));
  row.fails = row.difference.outside > 0;
  void* items = w->rows->items;
  CLI_TRY(cli_grow(&items, &w->rows->capacity, w->rows->count + 1, sizeof(row), "rows"));
  w->rows->items = items;
  w->rows->items[w->rows->count++] = row;
  return NULL;
}

// Inputs from the trusted tensors: those of the case, or tensors inside the model.
static carnot_status* give_inputs(debug_case* c, cli_session* session) {
  const carnot_engine* engine = session->loaded.engine;
  for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
    carnot_tensor_info info;
    CLI_TRY(carnot_engine_tensor_info(engine, i, &info));
    if (!info.is_input) continue;
    const carnot_data* data = cli_session_input(&c->inputs, info.name);
    if (!data) CLI_TRY(debug_wanted(c, info.name, &data));
    CLI_CHECK(data, NOT_FOUND, "nothing is known of tensor %s", info.name);
    CLI_TRY_AT(cli_session_set_input(session, i, data), "input %s", info.name);
  }
  return NULL;
}

static carnot_status* judge(debug_case* c, const cli_session* session, cli_tensor_diff* out_worst,
                            bool* out_fails) {
  const carnot_engine* engine = session->loaded.engine;
  *out_worst = (cli_tensor_diff){.cosine = 1};
  double error = 0;
  *out_fails = false;
  for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
    carnot_tensor_info info;
    const carnot_data *data, *wanted;
    cli_tensor_diff d;
    CLI_TRY(carnot_engine_tensor_info(engine, i, &info));
    if (info.is_input) continue;
    CLI_TRY(carnot_context_output_value(session->context, info.name, &data));
    if (carnot_data_kind_of(data) != CARNOT_DATA_TENSOR) continue;
    CLI_TRY(debug_wanted(c, info.name, &wanted));
    if (!wanted) continue;
    cli_tensor got = cli_tensor_of(data), right = cli_tensor_of(wanted);
    CLI_TRY(cli_tensor_compare(info.name, &got, &right, c->rtol, c->atol, &d));
    *out_fails |= d.outside > 0;
    if (d.max_abs >= out_worst->max_abs) *out_worst = d;
    error = fmax(error, isnan(d.error) ? INFINITY : d.error);
  }
  out_worst->error = error;
  return NULL;
}

carnot_status* debug_run(debug_case* c, const char* model, const cli_build_options* wanted_build,
                         debug_rows* rows, cli_tensor_diff* out_worst, bool* out_fails) {
  cli_build_options build = *wanted_build;
  // Shapes of tensors inside the model are its own.
  if (strcmp(model, c->path) != 0) build.opt = NULL, build.override_dynamic = false;
  cli_session session;
  CLI_TRY(cli_session_open(model, &build, &session));
  watcher w = {c, rows};
  carnot_status* status = give_inputs(c, &session);
  if (!status && rows) status = carnot_context_set_watch(session.context, note_value, &w);
  if (!status) status = carnot_context_run(session.context);
  if (!status) status = judge(c, &session, out_worst, out_fails);
  cli_session_close(&session);
  return status;
}
