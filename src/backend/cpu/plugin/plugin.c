// The tactic that runs plugins: each context has a clone, which is configured when shapes change.
#include "backend/cpu/plugin/plugin.h"

#include <stdio.h>

#include "plugin/call.h"

static carnot_plugin_layout layout_of(carnot_layout layout) {
  return layout == CARNOT_LAYOUT_CHANNELS_LAST ? CARNOT_PLUGIN_CHANNELS_LAST : CARNOT_PLUGIN_LINEAR;
}

static void formats_of(const carnot_problem* problem, carnot_layout layout,
                       carnot_plugin_format* out) {
  for (uint32_t i = 0; i < problem->input_count + problem->output_count; i++) {
    const carnot_operand_desc* t = i < problem->input_count
                                       ? &problem->inputs[i]
                                       : &problem->outputs[i - problem->input_count];
    bool blocked = t->rank > 2 && !t->is_constant;
    out[i] = (carnot_plugin_format){.dtype = t->format.dtype,
                                    .layout = blocked ? layout_of(layout) : CARNOT_PLUGIN_LINEAR,
                                    .rank = t->rank};
  }
}

static bool default_supports(const carnot_plugin_format* f) {
  return f->dtype == CARNOT_DTYPE_F32 && f->layout == CARNOT_PLUGIN_LINEAR;
}

// The operand that the plugin does not take, or -1.
static int refused(const carnot_plugin* p, const carnot_plugin_format* formats, int input_count,
                   int output_count) {
  for (int i = 0; i < input_count + output_count; i++) {
    bool takes = p->supports ? p->supports(p->self, i, formats, input_count, output_count)
                             : default_supports(&formats[i]);
    if (formats[i].dtype != CARNOT_DTYPE_INVALID && !takes) return i;
  }
  return -1;
}

static void set_layouts(carnot_problem* problem, const carnot_plugin_format* formats) {
  for (uint32_t i = 0; i < problem->input_count + problem->output_count; i++) {
    carnot_layout layout = formats[i].layout == CARNOT_PLUGIN_LINEAR ? CARNOT_LAYOUT_ROW_MAJOR
                                                                     : CARNOT_LAYOUT_CHANNELS_LAST;
    if (i < problem->input_count)
      problem->inputs[i].format.layout = layout;
    else
      problem->outputs[i - problem->input_count].format.layout = layout;
  }
}

const char* carnot_plugin_pick_layout(const carnot_plugin_instance* instance,
                                      carnot_problem* problem, char* reason, size_t size) {
  carnot_plugin_format formats[CARNOT_PLUGIN_MAX_OPERANDS];
  int at = -1;
  for (carnot_layout layout = 0; layout < CARNOT_LAYOUT_COUNT; layout++) {
    formats_of(problem, layout, formats);
    at = refused(&instance->plugin, formats, (int)problem->input_count, (int)problem->output_count);
    if (at >= 0) continue;
    set_layouts(problem, formats);
    return NULL;
  }
  bool is_input = at < (int)problem->input_count;
  snprintf(reason, size, "plugin %s does not take %s %d as %s of rank %d", instance->plugin.name,
           is_input ? "input" : "output", is_input ? at : at - (int)problem->input_count,
           carnot_dtype_name(formats[at].dtype), formats[at].rank);
  return reason;
}

static const char* plugin_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_plugin_instance* instance;
  if (problem->region->node_count != 1) return "a region of several operators";
  carnot_status* status =
      carnot_plugin_open_node(&problem->region->nodes[0].attrs, CARNOT_PLUGIN_BUILD, &instance);
  if (status) {
    snprintf(reason, size, "%s", carnot_status_message(status));
    carnot_status_free(status);
    return reason;
  }
  const char* why = problem->output_count != (uint32_t)instance->plugin.output_count
                        ? "an output that nobody reads"
                        : carnot_plugin_pick_layout(instance, problem, reason, size);
  carnot_plugin_close(instance);
  return why;
}

static carnot_status* plugin_validate(const carnot_step_view* step) {
  const carnot_region* region = step->region;
  CARNOT_CHECK(region->node_count == 1 && region->nodes[0].op == CARNOT_OP_PLUGIN &&
                   region->nodes[0].input_count == step->input_count &&
                   region->nodes[0].output_count == step->output_count &&
                   step->input_count + step->output_count <= CARNOT_PLUGIN_MAX_OPERANDS,
               INVALID_MODEL, "a plugin tactic without a plugin of its operands");
  for (uint32_t i = 0; i < step->input_count; i++)
    CARNOT_CHECK(region->nodes[0].inputs[i] == i || region->nodes[0].inputs[i] == CARNOT_PLAN_NONE,
                 INVALID_MODEL, "input %u of a plugin is local %u", i, region->nodes[0].inputs[i]);
  for (uint32_t i = 0; i < step->output_count; i++)
    CARNOT_CHECK(region->nodes[0].outputs[i] == region->outputs[i], INVALID_MODEL,
                 "output %u of a plugin is local %u", i, region->nodes[0].outputs[i]);
  return NULL;
}

static carnot_status* plugin_open(const carnot_step_view* step, void** out_instance) {
  *out_instance = NULL;
  carnot_plugin_instance *first, *clone = NULL;
  CARNOT_TRY(carnot_plugin_open_node(&step->region->nodes[0].attrs, CARNOT_PLUGIN_RUNTIME, &first));
  carnot_status* status =
      carnot_plugin_check_counts(first, (int)step->input_count, (int)step->output_count);
  if (!status && (uint32_t)first->plugin.output_count != step->output_count)
    status = CARNOT_ERROR(INVALID_MODEL, "plugin %s has %d outputs, the step %u",
                          first->plugin.name, first->plugin.output_count, step->output_count);
  if (!status) status = carnot_plugin_open_clone(first, &clone);
  carnot_plugin_close(first);
  *out_instance = clone;
  return status;
}

static void plugin_close(void* instance) { carnot_plugin_close(instance); }

static bool is_dense(const carnot_operand* o, carnot_layout layout) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(layout, o->rank, o->dims, strides);
  for (int d = 0; d < o->rank; d++)
    if (o->dims[d] > 1 && o->strides[d] != strides[d]) return false;
  return true;
}

static carnot_plugin_tensor tensor_of(const carnot_operand* o) {
  carnot_plugin_tensor t = {.format = {.rank = -1}, .dims = {.rank = -1}};
  if (o->format.dtype == CARNOT_DTYPE_INVALID) return t;
  t.format = (carnot_plugin_format){.dtype = o->format.dtype, .rank = o->rank};
  if (!is_dense(o, CARNOT_LAYOUT_ROW_MAJOR)) t.format.layout = CARNOT_PLUGIN_CHANNELS_LAST;
  t.dims.rank = o->rank;
  memcpy(t.dims.d, o->dims, sizeof(t.dims.d));
  memcpy(t.strides, o->strides, sizeof(t.strides));
  t.data = o->data;
  return t;
}

static carnot_status* plugin_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  carnot_plugin_tensor in[CARNOT_PLUGIN_MAX_OPERANDS], out[CARNOT_PLUGIN_MAX_OPERANDS];
  for (uint32_t i = 0; i < step->input_count; i++) {
    in[i] = tensor_of(&inputs[i]);
    in[i].data = NULL;
  }
  for (uint32_t i = 0; i < step->output_count; i++) {
    out[i] = tensor_of(&outputs[i]);
    out[i].data = NULL;
  }
  CARNOT_TRY(carnot_plugin_set_shape(step->instance, in, (int)step->input_count, out,
                                     (int)step->output_count, out_workspace_bytes));
  memcpy(state, out_workspace_bytes, sizeof(*out_workspace_bytes));
  return NULL;
}

static carnot_status* plugin_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  carnot_plugin_tensor in[CARNOT_PLUGIN_MAX_OPERANDS], out[CARNOT_PLUGIN_MAX_OPERANDS];
  size_t workspace_bytes;
  memcpy(&workspace_bytes, state, sizeof(workspace_bytes));
  for (uint32_t i = 0; i < step->input_count; i++) in[i] = tensor_of(&inputs[i]);
  for (uint32_t i = 0; i < step->output_count; i++) out[i] = tensor_of(&outputs[i]);
  carnot_plugin_threads threads = carnot_plugin_threads_of(executor);
  carnot_plugin_run run = {.inputs = in,
                           .outputs = out,
                           .input_count = (int32_t)step->input_count,
                           .output_count = (int32_t)step->output_count,
                           .workspace = workspace,
                           .workspace_bytes = workspace_bytes,
                           .threads = &threads};
  return carnot_plugin_enqueue(step->instance, &run);
}

static bool plugin_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_plugin* p = &((const carnot_plugin_instance*)step->instance)->plugin;
  return p->aliased_input && p->aliased_input(p->self, (int32_t)output) == (int32_t)input;
}

const carnot_tactic carnot_tactic_plugin = {.name = "cpu_plugin",
                                            .anchor = CARNOT_OP_PLUGIN,
                                            .isa = CARNOT_ISA_SCALAR,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .reject = plugin_reject,
                                            .validate = plugin_validate,
                                            .open = plugin_open,
                                            .close = plugin_close,
                                            .configure = plugin_configure,
                                            .run = plugin_run,
                                            .may_share = plugin_may_share};
