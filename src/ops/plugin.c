// A plugin: an operator that a creator of the registry makes from fields.
//   outputs = plugin(inputs), as carnot/plugin.h specifies
// Attributes name the creator and hold its packed fields (plugin/fields.h); "library" is the file
// it came from, for messages. Source: TensorRT PluginV3.
#include "ops/util.h"
#include "plugin/call.h"

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_REQUIRED("name", STRING),
                                          CARNOT_SPEC_REQUIRED("version", STRING),
                                          CARNOT_SPEC_TEXT("namespace", ""),
                                          CARNOT_SPEC_TEXT("library", ""),
                                          CARNOT_SPEC_TEXT("fields", ""),
                                          CARNOT_SPEC_TEXT("timing_key", ""),
                                          CARNOT_SPEC_END};

static carnot_status* infer_plugin(carnot_infer* infer) {
  carnot_plugin_instance* instance;
  CARNOT_TRY(carnot_plugin_open_node(infer->attrs, CARNOT_PLUGIN_BUILD, &instance));
  carnot_status* status = carnot_plugin_infer(instance, infer);
  carnot_plugin_close(instance);
  return status;
}

static carnot_plugin_tensor tensor_of(const carnot_tensor* t) {
  carnot_plugin_tensor out = {.format = {.rank = -1}, .dims = {.rank = -1}};
  if (!t) return out;
  out.format = (carnot_plugin_format){.dtype = t->dtype, .rank = t->rank};
  out.dims.rank = t->rank;
  memcpy(out.dims.d, t->dims, sizeof(out.dims.d));
  carnot_strides(t->dims, t->rank, out.strides);
  out.data = t->data;
  return out;
}

// Memory for the outputs that the call did not size: at their greatest.
static carnot_status* place_open(carnot_call* call, const carnot_plugin_instance* instance,
                                 const carnot_plugin_tensor* inputs, carnot_plugin_tensor* outputs,
                                 uint64_t* out_open) {
  int output_count = instance->plugin.output_count;
  CARNOT_TRY(carnot_plugin_dims(instance, inputs, call->input_count, outputs, output_count,
                                /*sizes=*/NULL, out_open));
  carnot_dtype in[CARNOT_PLUGIN_MAX_OPERANDS], out[CARNOT_PLUGIN_MAX_OPERANDS];
  for (int i = 0; i < call->input_count; i++) in[i] = inputs[i].format.dtype;
  for (int i = 0; i < output_count; i++) out[i] = call->input_count ? in[0] : CARNOT_DTYPE_F32;
  const carnot_plugin* p = &instance->plugin;
  carnot_plugin_error error = {{0}};
  if (p->output_dtypes &&
      !p->output_dtypes(p->self, in, call->input_count, out, output_count, &error))
    return carnot_plugin_failed(instance, "output_dtypes", &error);
  for (int i = 0; i < output_count; i++) {
    carnot_plugin_tensor* t = &outputs[i];
    t->format = (carnot_plugin_format){.dtype = out[i], .rank = t->dims.rank};
    carnot_strides(t->dims.d, t->dims.rank, t->strides);
    carnot_tensor* planned = carnot_call_out(call, i);
    size_t bytes;
    CARNOT_TRY(carnot_dims_bytes(out[i], t->dims.d, t->dims.rank, &bytes));
    if (planned && planned->data && !*out_open)
      t->data = planned->data;
    else
      CARNOT_TRY(carnot_call_alloc(call, bytes, &t->data));
  }
  return NULL;
}

// Copies what the run sized into outputs of that size.
static carnot_status* deliver(carnot_call* call, const carnot_plugin_instance* instance,
                              const carnot_plugin_tensor* inputs, carnot_plugin_tensor* outputs,
                              uint64_t open) {
  int output_count = instance->plugin.output_count;
  int64_t sizes[CARNOT_PLUGIN_MAX_OPERANDS] = {0};
  for (int i = 0; i < output_count; i++)
    if (open >> i & 1) sizes[i] = carnot_load_i64(outputs[i].format.dtype, outputs[i].data, 0);
  carnot_plugin_tensor actual[CARNOT_PLUGIN_MAX_OPERANDS];
  CARNOT_TRY(
      carnot_plugin_dims(instance, inputs, call->input_count, actual, output_count, sizes, &open));
  for (int i = 0; i < output_count; i++) {
    carnot_tensor* t = carnot_call_out(call, i);
    if (!t || (t->data && t->data == outputs[i].data)) continue;
    const carnot_dims* dims = &actual[i].dims;
    CARNOT_CHECK(carnot_dims_count(dims->d, dims->rank) <=
                     carnot_dims_count(outputs[i].dims.d, outputs[i].dims.rank),
                 INVALID_ARGUMENT, "plugin %s: output %d turned out larger than its greatest size",
                 instance->plugin.name, i);
    CARNOT_TRY(carnot_call_size_output(call, i, outputs[i].format.dtype, dims->rank, dims->d));
    size_t bytes = carnot_tensor_bytes(t);
    if (bytes) memcpy(t->data, outputs[i].data, bytes);
  }
  return NULL;
}

static carnot_status* run_instance(carnot_call* call, const carnot_plugin_instance* instance) {
  CARNOT_TRY(carnot_plugin_check_counts(instance, call->input_count, call->output_count));
  carnot_plugin_tensor inputs[CARNOT_PLUGIN_MAX_OPERANDS], outputs[CARNOT_PLUGIN_MAX_OPERANDS];
  for (int i = 0; i < call->input_count; i++) inputs[i] = tensor_of(carnot_call_in(call, i));
  uint64_t open;
  CARNOT_TRY(place_open(call, instance, inputs, outputs, &open));
  size_t workspace_bytes;
  int output_count = instance->plugin.output_count;
  CARNOT_TRY(carnot_plugin_set_shape(instance, inputs, call->input_count, outputs, output_count,
                                     &workspace_bytes));
  void* workspace;
  CARNOT_TRY(carnot_call_alloc(call, workspace_bytes, &workspace));
  carnot_plugin_threads threads = carnot_plugin_threads_of(call->host->executor);
  carnot_plugin_run run = {.inputs = inputs,
                           .outputs = outputs,
                           .input_count = call->input_count,
                           .output_count = output_count,
                           .workspace = workspace,
                           .workspace_bytes = workspace_bytes,
                           .threads = &threads};
  CARNOT_TRY(carnot_plugin_enqueue(instance, &run));
  return deliver(call, instance, inputs, outputs, open);
}

static carnot_status* run_plugin(carnot_call* call) {
  carnot_plugin_instance* instance;
  CARNOT_TRY(carnot_plugin_open_node(call->attrs, CARNOT_PLUGIN_RUNTIME, &instance));
  carnot_status* status = run_instance(call, instance);
  carnot_plugin_close(instance);
  return status;
}

// A plugin may draw or count: it is never folded, never merged.
const carnot_op_row carnot_op_plugin = {
    .name = "plugin",
    .min_inputs = 0,
    .max_inputs = CARNOT_PLUGIN_MAX_OPERANDS,
    .min_outputs = 1,
    .max_outputs = CARNOT_PLUGIN_MAX_OPERANDS,
    .flags = CARNOT_OP_RANDOM,
    .attrs = kAttrs,
    .infer = infer_plugin,
    .reference = run_plugin,
    .source = "TensorRT PluginV3",
    .layer_type = "PLUGIN_V3",
};
