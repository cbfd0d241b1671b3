// Calls of plugins: keys and fields of a node, shapes and formats, execution.
#include "plugin/call.h"

#include "base/executor.h"

carnot_status* carnot_plugin_key_of(const carnot_attrs* attrs, carnot_arena* arena,
                                    carnot_plugin_key* out_key) {
  static const char* const kNames[] = {"name", "version", "namespace", "library"};
  const char* texts[4];
  for (int i = 0; i < 4; i++) {
    const carnot_attr* attr = carnot_attrs_find(attrs, kNames[i]);
    bool is_text = attr && attr->type == CARNOT_ATTR_STRING && attr->s.size;
    texts[i] = is_text ? carnot_arena_text(arena, attr->s.data, attr->s.size) : "";
  }
  *out_key = (carnot_plugin_key){texts[0], texts[1], texts[2], texts[3]};
  return carnot_arena_status(arena);
}

carnot_status* carnot_plugin_open_node(const carnot_attrs* attrs, carnot_plugin_phase phase,
                                       carnot_plugin_instance** out_instance) {
  carnot_arena arena = {0};
  carnot_plugin_key key;
  carnot_status* status = carnot_plugin_key_of(attrs, &arena, &key);
  const carnot_attr* fields = carnot_attrs_find(attrs, "fields");
  bool is_text = fields && fields->type == CARNOT_ATTR_STRING;
  if (!status)
    status = carnot_plugin_open(&key, is_text ? fields->s : carnot_view(""), phase, out_instance);
  carnot_arena_deinit(&arena);
  return status;
}

carnot_status* carnot_plugin_check_counts(const carnot_plugin_instance* instance, int input_count,
                                          int output_count) {
  const carnot_plugin* p = &instance->plugin;
  CARNOT_CHECK(p->output_dims && p->enqueue, INVALID_ARGUMENT, "plugin %s has no %s", p->name,
               p->output_dims ? "enqueue" : "output_dims");
  CARNOT_CHECK(output_count <= p->output_count, INVALID_MODEL, "plugin %s has %d outputs, not %d",
               p->name, p->output_count, output_count);
  CARNOT_CHECK(input_count + p->output_count <= CARNOT_PLUGIN_MAX_OPERANDS, UNSUPPORTED,
               "plugin %s has %d inputs and %d outputs, at most %d together are supported", p->name,
               input_count, p->output_count, CARNOT_PLUGIN_MAX_OPERANDS);
  return NULL;
}

// ---- expressions ----

// Expressions are the symbols of |syms|; plain integers are themselves.
typedef struct expr_host {
  carnot_syms* syms;
  carnot_infer* infer;   // NULL at concrete dimensions
  const int64_t* sizes;  // of outputs, known after the run
  uint64_t uses_sizes;   // bit i: dimensions depend on what output i says
} expr_host;

static carnot_sym as_sym(carnot_expr e) { return (carnot_sym){e}; }

static carnot_expr expr_constant(void* host, int64_t value) {
  (void)host;
  return carnot_sym_of(carnot_max_i64(-CARNOT_SYM_LIMIT, carnot_min_i64(CARNOT_SYM_LIMIT, value)))
      .bits;
}

static carnot_expr expr_operation(void* host, carnot_expr_op op, carnot_expr a, carnot_expr b) {
  static const carnot_sym_op kOps[] = {CARNOT_SYM_ADD, CARNOT_SYM_MUL,      CARNOT_SYM_MAX,
                                       CARNOT_SYM_MIN, CARNOT_SYM_SUB,      CARNOT_SYM_EQ,
                                       CARNOT_SYM_LT,  CARNOT_SYM_FLOORDIV, CARNOT_SYM_CEILDIV};
  carnot_syms* syms = ((expr_host*)host)->syms;
  if ((size_t)op >= sizeof(kOps) / sizeof(kOps[0]))
    return carnot_sym_new(syms, NULL, 0, CARNOT_DIM_UNBOUNDED).bits;
  return carnot_sym_make(syms, kOps[op], as_sym(a), as_sym(b), carnot_sym_of(0)).bits;
}

static bool expr_value(void* host, carnot_expr e, int64_t* out_value) {
  (void)host;
  bool known = carnot_sym_is_const(as_sym(e));
  *out_value = known ? e : 0;
  return known;
}

static carnot_expr expr_size_of_output(void* host, int32_t output, carnot_expr opt,
                                       carnot_expr max) {
  expr_host* h = host;
  (void)opt;
  if (output >= 0 && output < 64) h->uses_sizes |= UINT64_C(1) << output;
  if (h->sizes && output >= 0 && output < CARNOT_PLUGIN_MAX_OPERANDS) return h->sizes[output];
  if (!h->infer) return max;
  int64_t least, most;
  carnot_sym_range(h->syms, as_sym(max), &least, &most);
  return carnot_infer_unknown(h->infer, most).bits;
}

static carnot_exprs exprs_of(expr_host* host) {
  return (carnot_exprs){.size = sizeof(carnot_exprs),
                        .host = host,
                        .constant = expr_constant,
                        .operation = expr_operation,
                        .value = expr_value,
                        .size_of_output = expr_size_of_output};
}

static carnot_status* ask_dims(const carnot_plugin_instance* instance, expr_host* host,
                               const carnot_plugin_shape* inputs, int input_count,
                               carnot_plugin_shape* outputs) {
  const carnot_plugin* p = &instance->plugin;
  carnot_exprs exprs = exprs_of(host);
  carnot_plugin_error error = {{0}};
  for (int i = 0; i < p->output_count; i++) outputs[i] = (carnot_plugin_shape){.rank = -1};
  if (!p->output_dims(p->self, inputs, input_count, outputs, p->output_count, &exprs, &error))
    return carnot_plugin_failed(instance, "output_dims", &error);
  for (int i = 0; i < p->output_count; i++) {
    CARNOT_CHECK(outputs[i].rank >= 0 && outputs[i].rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
                 "plugin %s: output_dims gave output %d rank %d, must be 0 to %d", p->name, i,
                 outputs[i].rank, CARNOT_MAX_RANK);
    for (int d = 0; d < outputs[i].rank; d++) {
      int64_t size = outputs[i].dims[d];
      CARNOT_CHECK(!carnot_sym_is_const(as_sym(size)) || size >= 0, INVALID_MODEL,
                   "plugin %s: output_dims gave dimension %d of output %d the size %lld", p->name,
                   d, i, (long long)size);
    }
  }
  return NULL;
}

// ---- inference ----

static carnot_status* infer_dtypes(const carnot_plugin_instance* instance,
                                   const carnot_infer* infer, carnot_dtype* outputs) {
  const carnot_plugin* p = &instance->plugin;
  carnot_dtype inputs[CARNOT_PLUGIN_MAX_OPERANDS];
  for (int i = 0; i < infer->input_count; i++)
    inputs[i] = infer->inputs[i].type ? infer->inputs[i].type->dtype : CARNOT_DTYPE_INVALID;
  CARNOT_CHECK(p->output_dtypes || infer->input_count, INVALID_ARGUMENT,
               "plugin %s has no inputs and no output_dtypes", p->name);
  for (int i = 0; i < p->output_count; i++)
    outputs[i] = p->output_dtypes ? CARNOT_DTYPE_INVALID : inputs[0];
  carnot_plugin_error error = {{0}};
  if (p->output_dtypes &&
      !p->output_dtypes(p->self, inputs, infer->input_count, outputs, p->output_count, &error))
    return carnot_plugin_failed(instance, "output_dtypes", &error);
  for (int i = 0; i < p->output_count; i++)
    CARNOT_CHECK(outputs[i] > CARNOT_DTYPE_INVALID && outputs[i] < CARNOT_DTYPE_STRING,
                 INVALID_ARGUMENT, "plugin %s: output_dtypes gave output %d type %d", p->name, i,
                 (int)outputs[i]);
  return NULL;
}

// The input as the plugin sees it; false where its rank or needed elements are not known yet.
static carnot_status* shape_of(const carnot_plugin_instance* instance, carnot_infer* infer,
                               int input, carnot_plugin_shape* out, bool* known) {
  *out = (carnot_plugin_shape){.rank = -1};
  if (!carnot_infer_has(infer, input)) return NULL;
  const carnot_type* type;
  CARNOT_TRY(carnot_infer_tensor(infer, input, &type));
  out->rank = type->rank;
  *known = *known && type->rank >= 0;
  for (int d = 0; d < type->rank; d++) out->dims[d] = type->dims[d].bits;
  const carnot_plugin* p = &instance->plugin;
  if (!p->shape_input || !p->shape_input(p->self, input)) return NULL;
  const carnot_sym* syms;
  size_t count;
  CARNOT_TRY(carnot_infer_ints(infer, input, &syms, &count));
  *known = *known && syms;
  carnot_expr* values = CARNOT_NEW_ARRAY(infer->arena, carnot_expr, count + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  for (size_t i = 0; i < count; i++) values[i] = syms[i].bits;
  out->values = syms ? values : NULL;
  out->value_count = (int32_t)count;
  return NULL;
}

carnot_status* carnot_plugin_infer(const carnot_plugin_instance* instance, carnot_infer* infer) {
  CARNOT_TRY(carnot_plugin_check_counts(instance, infer->input_count, infer->output_count));
  carnot_dtype dtypes[CARNOT_PLUGIN_MAX_OPERANDS];
  CARNOT_TRY(infer_dtypes(instance, infer, dtypes));
  carnot_plugin_shape inputs[CARNOT_PLUGIN_MAX_OPERANDS], outputs[CARNOT_PLUGIN_MAX_OPERANDS];
  bool known = true;
  for (int i = 0; i < infer->input_count; i++)
    CARNOT_TRY(shape_of(instance, infer, i, &inputs[i], &known));
  if (!known) {
    for (int i = 0; i < infer->output_count; i++) carnot_infer_set(infer, i, dtypes[i], -1, NULL);
    return NULL;
  }
  expr_host host = {.syms = infer->syms, .infer = infer};
  CARNOT_TRY(ask_dims(instance, &host, inputs, infer->input_count, outputs));
  for (int i = 0; i < infer->output_count; i++) {
    carnot_sym dims[CARNOT_MAX_RANK];
    for (int d = 0; d < outputs[i].rank; d++) dims[d] = as_sym(outputs[i].dims[d]);
    carnot_infer_set(infer, i, dtypes[i], outputs[i].rank, dims);
  }
  return NULL;
}

// ---- running ----

// The elements of a shape input as expressions.
static carnot_status* values_of(const carnot_plugin_tensor* t, carnot_arena* arena,
                                carnot_plugin_shape* out) {
  int64_t count = carnot_dims_count(t->dims.d, t->dims.rank);
  CARNOT_CHECK(t->data && count <= 1024, INVALID_MODEL, "a shape input has %lld elements",
               (long long)count);
  carnot_expr* values = CARNOT_NEW_ARRAY(arena, carnot_expr, (size_t)count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int64_t i = 0; i < count; i++)
    values[i] = expr_constant(NULL, carnot_load_i64(t->format.dtype, t->data, (size_t)i));
  out->values = values;
  out->value_count = (int32_t)count;
  return NULL;
}

static carnot_status* concrete_shapes(const carnot_plugin_instance* instance,
                                      const carnot_plugin_tensor* inputs, int input_count,
                                      carnot_arena* arena, carnot_plugin_shape* out) {
  const carnot_plugin* p = &instance->plugin;
  for (int i = 0; i < input_count; i++) {
    out[i] = (carnot_plugin_shape){.rank = inputs[i].dims.rank};
    for (int d = 0; d < out[i].rank; d++) out[i].dims[d] = inputs[i].dims.d[d];
    if (out[i].rank >= 0 && p->shape_input && p->shape_input(p->self, i))
      CARNOT_TRY(values_of(&inputs[i], arena, &out[i]));
  }
  return NULL;
}

static carnot_status* concrete_dims(const carnot_plugin_instance* instance,
                                    const carnot_plugin_tensor* inputs, int input_count,
                                    carnot_plugin_tensor* outputs, int output_count,
                                    const int64_t* sizes, carnot_arena* arena, carnot_syms* syms,
                                    uint64_t* out_open) {
  carnot_plugin_shape in[CARNOT_PLUGIN_MAX_OPERANDS], out[CARNOT_PLUGIN_MAX_OPERANDS];
  CARNOT_TRY(concrete_shapes(instance, inputs, input_count, arena, in));
  expr_host host = {.syms = syms, .sizes = sizes};
  CARNOT_TRY(ask_dims(instance, &host, in, input_count, out));
  for (int i = 0; i < output_count; i++) {
    outputs[i].dims.rank = out[i].rank;
    for (int d = 0; d < out[i].rank; d++) {
      CARNOT_CHECK(carnot_sym_is_const(as_sym(out[i].dims[d])), INVALID_MODEL,
                   "plugin %s: dimension %d of output %d has no value (overflow or division by 0)",
                   instance->plugin.name, d, i);
      outputs[i].dims.d[d] = out[i].dims[d];
    }
  }
  *out_open = host.uses_sizes;
  return NULL;
}

carnot_status* carnot_plugin_dims(const carnot_plugin_instance* instance,
                                  const carnot_plugin_tensor* inputs, int input_count,
                                  carnot_plugin_tensor* outputs, int output_count,
                                  const int64_t* sizes, uint64_t* out_open) {
  carnot_arena arena = {0};
  carnot_syms syms;
  carnot_syms_init(&syms);
  carnot_status* status = concrete_dims(instance, inputs, input_count, outputs, output_count, sizes,
                                        &arena, &syms, out_open);
  carnot_syms_deinit(&syms);
  carnot_arena_deinit(&arena);
  return status;
}

static void parallel(void* host, int64_t part_count, void (*fn)(void* arg, int64_t part),
                     void* arg) {
  carnot_executor_parallel(host, part_count, fn, arg);
}

carnot_plugin_threads carnot_plugin_threads_of(struct carnot_executor* executor) {
  return (carnot_plugin_threads){
      .size = sizeof(carnot_plugin_threads),
      .host = executor,
      .thread_count = executor ? carnot_executor_thread_count(executor) : 1,
      .parallel = parallel};
}

carnot_status* carnot_plugin_set_shape(const carnot_plugin_instance* instance,
                                       const carnot_plugin_tensor* inputs, int input_count,
                                       const carnot_plugin_tensor* outputs, int output_count,
                                       size_t* out_workspace_bytes) {
  const carnot_plugin* p = &instance->plugin;
  carnot_plugin_error error = {{0}};
  *out_workspace_bytes = 0;
  if (p->on_shape_change &&
      !p->on_shape_change(p->self, inputs, input_count, outputs, output_count, &error))
    return carnot_plugin_failed(instance, "on_shape_change", &error);
  if (p->workspace_bytes)
    *out_workspace_bytes = p->workspace_bytes(p->self, inputs, input_count, outputs, output_count);
  CARNOT_CHECK(*out_workspace_bytes < (UINT64_C(1) << 48), OUT_OF_RANGE,
               "plugin %s wants a workspace of %zu bytes", p->name, *out_workspace_bytes);
  return NULL;
}

carnot_status* carnot_plugin_enqueue(const carnot_plugin_instance* instance,
                                     carnot_plugin_run* run) {
  const carnot_plugin* p = &instance->plugin;
  carnot_plugin_tensor inputs[CARNOT_PLUGIN_MAX_OPERANDS];
  if (run->input_count) memcpy(inputs, run->inputs, (size_t)run->input_count * sizeof(*inputs));
  for (int32_t o = 0; p->aliased_input && o < run->output_count; o++) {
    int32_t i = p->aliased_input(p->self, o);
    if (i < 0 || i >= run->input_count || inputs[i].data == run->outputs[o].data) continue;
    size_t bytes = carnot_dtype_bytes(
        inputs[i].format.dtype, (size_t)carnot_dims_count(inputs[i].dims.d, inputs[i].dims.rank));
    size_t out_bytes = carnot_dtype_bytes(
        run->outputs[o].format.dtype,
        (size_t)carnot_dims_count(run->outputs[o].dims.d, run->outputs[o].dims.rank));
    CARNOT_CHECK(bytes == out_bytes, INVALID_ARGUMENT,
                 "plugin %s: output %d has %zu bytes and aliases input %d of %zu", p->name, o,
                 out_bytes, i, bytes);
    if (bytes) memcpy(run->outputs[o].data, inputs[i].data, bytes);
    inputs[i].data = run->outputs[o].data;
  }
  run->size = sizeof(*run);
  run->inputs = inputs;
  carnot_plugin_error error = {{0}};
  if (!p->enqueue(p->self, run, &error)) return carnot_plugin_failed(instance, "enqueue", &error);
  return NULL;
}
