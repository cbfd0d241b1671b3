// carnot debug: where a wrong result comes from.
#include "debug.h"

#include <stdlib.h>

#include "ops/util.h"
#include "run/context.h"

// ---- the case ----

static carnot_status* evaluate(debug_case* c) {
  const carnot_block* main = c->graph->main;
  const carnot_context* context = c->inputs.context;
  const carnot_rt_value** inputs =
      CARNOT_NEW_ARRAY(&c->arena, const carnot_rt_value*, main->param_count + 1);
  for (size_t i = 0; i < main->param_count; i++) {
    uint32_t index;
    CARNOT_TRY(carnot_plan_find_binding(context->plan, main->params[i]->name, &index));
    carnot_rt_value* cell =
        carnot_arena_copy(&c->arena, &context->bindings[index].cell, sizeof(*cell));
    if (cell->kind == CARNOT_VALUE_TENSOR) cell->tensor.data = context->bindings[index].address;
    inputs[i] = cell;
  }
  CARNOT_TRY(carnot_evaluator_init(&c->evaluator, c->graph, c->inputs.executor, 0));
  c->evaluated = true;
  carnot_rt_value* outputs = CARNOT_NEW_ARRAY(&c->arena, carnot_rt_value, main->output_count + 1);
  return carnot_status_annotate(carnot_evaluate_block(&c->evaluator, main, (int)main->param_count,
                                                      inputs, (int)main->output_count, outputs),
                                "the reference kernels");
}

static carnot_status* read_flags(cli_flags* flags, debug_case* out) {
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &out->shapes));
  out->rtol = out->atol = 1e-4;
  CARNOT_TRY(cli_flag_number(flags, "rtol", 0, 1e30, &out->rtol));
  CARNOT_TRY(cli_flag_number(flags, "atol", 0, 1e30, &out->atol));
  CARNOT_TRY(cli_image_flags(flags, &out->image));
  while (cli_flag_each(flags, "input", 1 << 20)) continue;
  cli_build_options_init(&out->build);
  out->build.opt = &out->shapes;
  out->build.override_dynamic = out->shapes.count > 0;
  CARNOT_TRY(cli_build_flags(flags, &out->build));
  out->against = cli_flag_text(flags, "against");
  out->path = cli_word(flags, 1);
  CARNOT_CHECK(out->path, INVALID_ARGUMENT, "usage: carnot debug WHAT MODEL [--input NAME=FILE …]");
  return NULL;
}

carnot_status* debug_open(cli_flags* flags, debug_case* out) {
  *out = (debug_case){.flags = flags};
  CARNOT_TRY(read_flags(flags, out));
  CARNOT_TRY(carnot_onnx_import_file(out->path, NULL, &out->source, &out->graph));
  cli_build_options plain;
  cli_build_options_init(&plain);
  plain.opt = &out->shapes;
  plain.override_dynamic = out->shapes.count > 0;
  plain.config.level = 0;
  plain.config.no_passes = true;
  plain.device = "cpu";  // inputs are read here, and the reference kernels run on them
  CARNOT_TRY(cli_session_open(out->path, &plain, &out->inputs));
  CARNOT_TRY(cli_session_read(&out->inputs, flags, &out->shapes, &out->image, /*random=*/true));
  return out->against ? NULL : evaluate(out);
}

void debug_close(debug_case* c) {
  if (c->evaluated) carnot_evaluator_deinit(&c->evaluator);
  cli_session_close(&c->inputs);
  if (c->graph) carnot_graph_destroy(c->graph);
  carnot_model_source_destroy(c->source);
  cli_shapes_free(&c->shapes);
  carnot_arena_deinit(&c->arena);
}

static const carnot_value* value_named(const carnot_graph* graph, const char* name) {
  for (size_t i = 0; i < graph->main->param_count; i++)
    if (strcmp(graph->main->params[i]->name, name) == 0) return graph->main->params[i];
  for (const carnot_node* node = graph->main->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i] && strcmp(node->outputs[i]->name, name) == 0) return node->outputs[i];
  return NULL;
}

carnot_status* debug_wanted(debug_case* c, const char* name, const carnot_tensor** out) {
  *out = NULL;
  if (c->against) {
    char path[4096], safe[1024];
    cli_safe_name(name, safe, sizeof(safe));
    snprintf(path, sizeof(path), "%s/%s.npy", c->against, safe);
    FILE* there = fopen(path, "rb");
    if (!there) return NULL;
    fclose(there);
    carnot_rt_value* cell = CARNOT_NEW(&c->arena, carnot_rt_value);
    CARNOT_TRY(cli_read_tensor(path, NULL, NULL, &c->image, &c->arena, cell));
    *out = &cell->tensor;
    return NULL;
  }
  const carnot_value* value = value_named(c->graph, name);
  const carnot_rt_value* cell =
      value && value->id < c->evaluator.cell_count ? c->evaluator.cells[value->id] : NULL;
  if (cell && cell->kind == CARNOT_VALUE_TENSOR && cell->tensor.dtype != CARNOT_DTYPE_STRING)
    *out = &cell->tensor;
  return NULL;
}

// ---- one run, watched ----

typedef struct watcher {
  debug_case* c;
  debug_rows* rows;
} watcher;

static carnot_status* dense(carnot_arena* arena, const carnot_run_value* value,
                            carnot_tensor* out) {
  *out = value->cell.tensor;
  int64_t count = carnot_tensor_count(out);
  size_t bytes;
  CARNOT_TRY(carnot_dims_bytes(out->dtype, out->dims, out->rank, &bytes));
  CARNOT_TRY(carnot_arena_try(arena, bytes + 1, 1, "a tensor", &out->data));
  for (int64_t i = 0; i < count; i++) {
    int64_t at = carnot_offset(i, out->dims, value->strides, out->rank);
    carnot_copy_element(out->dtype, out->data, (size_t)i, value->cell.tensor.data, (size_t)at);
  }
  return NULL;
}

static carnot_status* note_step(void* user, carnot_context* context, uint32_t index) {
  watcher* w = user;
  const carnot_plan_step* step = &context->plan->steps[index];
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
    const carnot_run_value* value = &context->values[step->outputs[i]];
    const char* name = context->plan->values[step->outputs[i]].name;
    const carnot_tensor* wanted;
    carnot_tensor got;
    if (value->cell.kind != CARNOT_VALUE_TENSOR || !value->cell.tensor.data) continue;
    CARNOT_TRY(debug_wanted(w->c, name, &wanted));
    if (!wanted) continue;
    debug_row row = {.step = step->name,
                     .tactic = step->variants[context->steps[index].variant].tactic,
                     .value = name};
    CARNOT_TRY(dense(&w->c->arena, value, &got));
    CARNOT_TRY(cli_difference_of(name, &got, wanted, w->c->rtol, w->c->atol, &row.difference));
    row.fails = row.difference.outside > 0;
    void* items = w->rows->items;
    CARNOT_TRY(carnot_grow(&items, &w->rows->capacity, w->rows->count + 1, sizeof(row), "rows"));
    w->rows->items = items;
    row.step = carnot_arena_text(&w->c->arena, row.step, strlen(row.step));
    row.tactic = carnot_arena_text(&w->c->arena, row.tactic, strlen(row.tactic));
    row.value = carnot_arena_text(&w->c->arena, name, strlen(name));
    w->rows->items[w->rows->count++] = row;
  }
  return NULL;
}

// Inputs of |context| from the trusted tensors: those of the case, or tensors inside the model.
static carnot_status* give_inputs(debug_case* c, carnot_context* context) {
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    if (!b->is_input) continue;
    uint32_t index;
    carnot_rt_value cell;
    carnot_status* status = carnot_plan_find_binding(c->inputs.context->plan, b->name, &index);
    if (!status) {
      cell = c->inputs.context->bindings[index].cell;
      if (cell.kind == CARNOT_VALUE_TENSOR)
        cell.tensor.data = c->inputs.context->bindings[index].address;
    } else {
      carnot_status_free(status);
      const carnot_tensor* inner;
      CARNOT_TRY(debug_wanted(c, b->name, &inner));
      CARNOT_CHECK(inner, NOT_FOUND, "nothing is known of tensor %s", b->name);
      cell = (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR, .tensor = *inner};
    }
    CARNOT_TRY_AT(carnot_context_set_input_cell(context, i, &cell), "input %s", b->name);
  }
  return NULL;
}

static carnot_status* judge(debug_case* c, carnot_context* context, cli_difference* out_worst,
                            bool* out_fails) {
  *out_worst = (cli_difference){.cosine = 1};
  *out_fails = false;
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    const carnot_rt_value* cell = b->is_input ? NULL : carnot_context_output(context, i);
    const carnot_tensor* wanted;
    cli_difference d;
    if (!cell || cell->kind != CARNOT_VALUE_TENSOR) continue;
    CARNOT_TRY(debug_wanted(c, b->name, &wanted));
    if (!wanted) continue;
    CARNOT_TRY(cli_difference_of(b->name, &cell->tensor, wanted, c->rtol, c->atol, &d));
    *out_fails |= d.outside > 0;
    if (d.max_abs >= out_worst->max_abs) *out_worst = d;
  }
  return NULL;
}

carnot_status* debug_run(debug_case* c, const char* model, const carnot_build_config* config,
                         debug_rows* rows, cli_difference* out_worst, bool* out_fails) {
  cli_build_options build = c->build;
  build.config = *config;
  // Shapes of tensors inside the model are its own.
  if (strcmp(model, c->path) != 0) build.opt = NULL, build.override_dynamic = false;
  cli_session session;
  CARNOT_TRY(cli_session_open(model, &build, &session));
  watcher w = {c, rows};
  carnot_status* status = give_inputs(c, session.context);
  if (rows) {
    session.context->watch = note_step;
    session.context->watch_user = &w;
  }
  if (!status) status = carnot_context_run_now(session.context);
  if (!status) status = judge(c, session.context, out_worst, out_fails);
  cli_session_close(&session);
  return status;
}

// ---- the command ----

static void print_row(const debug_row* row) {
  printf("%-4s %10.3g %10.3g %12.9f  %-28s %s\n", row->fails ? "FAIL" : "ok",
         row->difference.max_abs, row->difference.max_rel, row->difference.cosine, row->tactic,
         row->step);
}

carnot_status* debug_compare(debug_case* c) {
  debug_rows rows = {0};
  cli_difference worst;
  bool fails;
  carnot_status* status = debug_run(c, c->path, &c->build.config, &rows, &worst, &fails);
  const debug_row* first = NULL;
  size_t failing = 0;
  if (!status)
    printf("%-4s %10s %10s %12s  %-28s layer\n", "", "max abs", "max rel", "cosine", "tactic");
  for (size_t i = 0; !status && i < rows.count; i++) {
    print_row(&rows.items[i]);
    failing += rows.items[i].fails;
    if (rows.items[i].fails && !first) first = &rows.items[i];
  }
  if (!status && !rows.count)
    status = CARNOT_ERROR(NOT_FOUND, "no tensor of the engine is known by name on the other side");
  if (!status && first)
    status = CARNOT_ERROR(
        FAILED_PRECONDITION,
        "%zu of %zu layers are outside atol %g + rtol %g * |wanted|; the first is "
        "%s (tensor %s, tactic %s): element %lld is %.9g, wanted %.9g",
        failing, rows.count, c->atol, c->rtol, first->step, first->value, first->tactic,
        (long long)first->difference.worst, first->difference.worst_a, first->difference.worst_b);
  if (!status) printf("%zu layers agree\n", rows.count);
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
  static const char* const kKnown[] = {"input",      "shapes", "rtol",          "atol", "mean",
                                       "scale",      "layout", "against",       "at",   "output",
                                       "output-dir", "each",   CLI_BUILD_FLAGS, NULL};
  const char* what = cli_word(flags, 0);
  int chosen = 0;
  while (what && chosen < kWhatCount && strcmp(kWhat[chosen].name, what) != 0) chosen++;
  CARNOT_CHECK(what && chosen < kWhatCount, INVALID_ARGUMENT,
               "usage: carnot debug compare|passes|precision|backends|reduce|split MODEL");
  static const char* const kOwn[] = {"at", "output", "output-dir"};
  for (int i = 0; i < 3; i++) (void)cli_flag_text(flags, kOwn[i]);
  (void)cli_flag_set(flags, "each");
  debug_case c;
  carnot_status* status = debug_open(flags, &c);
  if (!status) status = cli_flags_finish(flags, kKnown);
  if (!status) status = kWhat[chosen].run(&c);
  debug_close(&c);
  return status;
}
