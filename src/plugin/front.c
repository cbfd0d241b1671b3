// Adding plugins to graphs: a plugin node, or the operators that a built-in one consists of.
#include "plugin/front.h"

#include "plugin/call.h"

// ---- plugin nodes ----

static void set_text(carnot_attrs* attrs, carnot_arena* arena, const char* name, const char* text) {
  carnot_attrs_set_text(attrs, arena, name, carnot_arena_text(arena, text, strlen(text)));
}

static carnot_status* add_node(carnot_block* block, const carnot_plugin_entry* entry,
                               const char* name, const carnot_plugin_field* fields,
                               int32_t field_count, carnot_value* const* inputs, int input_count,
                               carnot_value** outputs, int output_count) {
  carnot_arena* arena = &block->graph->arena;
  carnot_attrs attrs = {0};
  set_text(&attrs, arena, "name", entry->creator.name);
  set_text(&attrs, arena, "version", entry->creator.version);
  set_text(&attrs, arena, "namespace", entry->creator.name_space);
  if (entry->library)
    set_text(&attrs, arena, "library", carnot_plugin_library_name(entry->library));
  carnot_attr packed = {.name = "fields", .type = CARNOT_ATTR_STRING};
  CARNOT_TRY(carnot_fields_pack(fields, field_count, arena, &packed.s));
  carnot_attrs_set(&attrs, arena, packed);
  carnot_node* node;
  CARNOT_TRY(carnot_block_add_node(block, CARNOT_OP_PLUGIN, name, &attrs, inputs, input_count, NULL,
                                   output_count, &node));
  for (int i = 0; i < output_count; i++) outputs[i] = node->outputs[i];
  return NULL;
}

// A built-in with a kernel of its own: operands are converted to the kernel's types, results back
// to the first input's floating type.
void front_kernel(carnot_front* f) {
  const carnot_plugin_entry* entry = f->entry;
  const carnot_plugin_kernel* kernel = entry->builtin->kernel;
  carnot_value* inputs[CARNOT_PLUGIN_MAX_OPERANDS];
  carnot_dtype storage = CARNOT_DTYPE_F32;
  for (int i = 0; i < f->input_count; i++) {
    inputs[i] = f->inputs[i];
    if (!inputs[i]) continue;
    if (i == 0 && carnot_dtype_is_float(inputs[0]->type.dtype)) storage = inputs[0]->type.dtype;
    inputs[i] = front_cast(f, inputs[i], carnot_plugin_kernel_dtype(kernel, false, i));
  }
  if (f->status) return;
  f->status = add_node(f->block, entry, f->name, f->fields.items, f->fields.count, inputs,
                       f->input_count, f->outputs, f->output_count);
  for (int i = 0; i < f->output_count; i++)
    if (carnot_plugin_kernel_dtype(kernel, true, i) == CARNOT_DTYPE_F32)
      f->outputs[i] = front_cast(f, f->outputs[i], storage);
}

static carnot_status* add_builtin(carnot_block* block, const carnot_plugin_entry* entry,
                                  const char* name, const carnot_plugin_field* fields,
                                  int32_t field_count, carnot_value* const* inputs, int input_count,
                                  carnot_value** outputs, int output_count) {
  const carnot_plugin_builtin* row = entry->builtin;
  CARNOT_CHECK(input_count >= row->min_inputs && input_count <= row->max_inputs, INVALID_MODEL,
               "plugin %s has %d inputs, must have %d to %d", row->name, input_count,
               row->min_inputs, row->max_inputs);
  // Creating it checks the fields.
  carnot_plugin* plugin;
  CARNOT_TRY(carnot_plugin_create(&entry->creator, name, fields, field_count, &plugin));
  int most = plugin->output_count;
  carnot_plugin_destroy(plugin);
  CARNOT_CHECK(output_count <= most, INVALID_MODEL, "plugin %s has %d outputs, not %d", row->name,
               most, output_count);
  carnot_value* all[CARNOT_PLUGIN_MAX_OPERANDS] = {NULL};
  CARNOT_CHECK(most <= CARNOT_PLUGIN_MAX_OPERANDS, UNSUPPORTED, "plugin %s with %d outputs",
               row->name, most);
  carnot_front f = {.entry = entry,
                    .block = block,
                    .arena = &block->graph->arena,
                    .name = name,
                    .version = row->version,
                    .fields = {(carnot_plugin_field*)fields, field_count},
                    .input_count = input_count,
                    .output_count = most,
                    .inputs = inputs,
                    .outputs = all};
  uint32_t first_node = block->graph->node_count;
  if (row->expand)
    row->expand(&f);
  else
    front_kernel(&f);
  for (int i = 0; i < output_count; i++) {
    if (!f.status && !all[i])
      FRONT_FAIL(&f, UNSUPPORTED, "output %d is not provided with these fields", i);
    outputs[i] = all[i];
  }
  // The last node carries the layer's name.
  carnot_node* last = block->last;
  if (!f.status && name && last && last->id >= first_node) last->name = name;
  return carnot_status_annotate(f.status, "plugin %s version %s", row->name, row->version);
}

carnot_status* carnot_plugin_add(carnot_block* block, const carnot_plugin_entry* entry,
                                 const char* name, const carnot_plugin_field* fields,
                                 int32_t field_count, carnot_value* const* inputs, int input_count,
                                 carnot_value** outputs, int output_count) {
  return (entry->builtin ? add_builtin : add_node)(block, entry, name, fields, field_count, inputs,
                                                   input_count, outputs, output_count);
}

carnot_status* carnot_plugin_add_made(carnot_block* block, const carnot_plugin* plugin,
                                      const char* name, carnot_value* const* inputs,
                                      int input_count, carnot_value** outputs) {
  carnot_plugin p;
  CARNOT_TRY(carnot_plugin_read(plugin, &p));
  carnot_plugin_entry* entry;
  CARNOT_TRY(
      carnot_registry_find(&(carnot_plugin_key){p.name, p.version, p.name_space, NULL}, &entry));
  carnot_plugin_error error = {{0}};
  const carnot_plugin_field* fields;
  int32_t field_count;
  if (!p.serialize(p.self, &fields, &field_count, &error))
    return carnot_plugin_failed(&(carnot_plugin_instance){.entry = entry}, "serialize", &error);
  carnot_graph* graph = block->graph;
  if (!name) name = carnot_arena_print(&graph->arena, "(%s %u)", p.name, graph->node_count);
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  return carnot_plugin_add(block, entry, name, fields, field_count, inputs, input_count, outputs,
                           p.output_count);
}

// ---- fields and inputs ----

int64_t front_int(carnot_front* f, const char* field, int64_t absent) {
  return carnot_fields_int(&f->fields, field, absent);
}
double front_float(carnot_front* f, const char* field, double absent) {
  return carnot_fields_float(&f->fields, field, absent);
}

carnot_value* front_in(carnot_front* f, int input) {
  if (input < f->input_count && f->inputs[input]) return f->inputs[input];
  FRONT_FAIL(f, INVALID_MODEL, "input %d is missing", input);
  return NULL;
}

int front_rank(carnot_front* f, const carnot_value* x, int least) {
  if (f->status) return 0;
  if (x->type.kind == CARNOT_VALUE_TENSOR && x->type.rank >= least) return x->type.rank;
  FRONT_FAIL(f, INVALID_MODEL, "%s has rank %d, must be at least %d", x->name, x->type.rank, least);
  return 0;
}

int64_t front_dim(carnot_front* f, const carnot_value* x, int axis, const char* what) {
  if (front_rank(f, x, axis + 1) == 0) return 0;
  if (carnot_sym_is_const(x->type.dims[axis])) return x->type.dims[axis].bits;
  FRONT_FAIL(f, UNSUPPORTED, "%s (dimension %d of %s) must be known at build", what, axis, x->name);
  return 0;
}

// ---- nodes ----

void front_node(carnot_front* f, carnot_op op, const carnot_attrs* attrs,
                carnot_value* const* inputs, int input_count, carnot_value** outputs,
                int output_count) {
  if (f->status) return;
  while (input_count && !inputs[input_count - 1]) input_count--;
  carnot_node* node;
  const char* name =
      carnot_arena_print(f->arena, "%s/%s", f->name ? f->name : "plugin", carnot_op_get(op)->name);
  f->status = carnot_block_add_node(f->block, op, name, attrs, inputs, input_count, NULL,
                                    output_count, &node);
  for (int i = 0; i < output_count; i++) outputs[i] = f->status ? NULL : node->outputs[i];
}

carnot_value* front_op(carnot_front* f, carnot_op op, const carnot_attrs* attrs, int input_count,
                       ...) {
  carnot_value* inputs[16];
  va_list args;
  va_start(args, input_count);
  for (int i = 0; i < input_count; i++) inputs[i] = va_arg(args, carnot_value*);
  va_end(args);
  carnot_value* output = NULL;
  front_node(f, op, attrs, inputs, input_count, &output, 1);
  return output;
}

carnot_value* front_fn(carnot_front* f, carnot_fn fn, carnot_value* x, double alpha, double beta) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "fn", fn);
  carnot_attrs_set_float(&attrs, f->arena, "alpha", alpha);
  carnot_attrs_set_float(&attrs, f->arena, "beta", beta);
  return front_op(f, CARNOT_OP_UNARY, &attrs, 1, x);
}

carnot_value* front_binary(carnot_front* f, carnot_fn fn, carnot_value* x, carnot_value* y) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "fn", fn);
  return front_op(f, CARNOT_OP_BINARY, &attrs, 2, x, y);
}

carnot_value* front_cast(carnot_front* f, carnot_value* x, carnot_dtype dtype) {
  if (f->status || x->type.dtype == dtype) return x;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "to", dtype);
  return front_op(f, CARNOT_OP_CAST, &attrs, 1, x);
}

carnot_value* front_number(carnot_front* f, const carnot_value* like, double value) {
  return f->status ? NULL : carnot_graph_float(f->block, like->type.dtype, value);
}

carnot_value* front_ints(carnot_front* f, const int64_t* values, int count) {
  return f->status ? NULL : carnot_graph_ints(f->block, values, count);
}

carnot_value* front_weights(carnot_front* f, const char* field, const carnot_value* like,
                            const int64_t* dims, int rank) {
  if (f->status) return NULL;
  const carnot_plugin_field* found = carnot_field_find(f->fields.items, f->fields.count, field);
  int64_t count = carnot_dims_count(dims, rank);
  if (!found || found->length != count) {
    FRONT_FAIL(f, INVALID_ARGUMENT, "field %s has %d elements, must have %lld", field,
               found ? found->length : 0, (long long)count);
    return NULL;
  }
  carnot_tensor tensor = {.dtype = like->type.dtype, .rank = rank};
  memcpy(tensor.dims, dims, (size_t)rank * sizeof(*dims));
  f->status = carnot_arena_try(f->arena, carnot_tensor_bytes(&tensor) + 1, 1, field, &tensor.data);
  if (f->status) return NULL;
  for (int64_t i = 0; i < count; i++)
    carnot_store_f64(tensor.dtype, tensor.data, (size_t)i, carnot_field_number(found, (int32_t)i));
  const char* name = carnot_arena_print(f->arena, "%s.%s", f->name ? f->name : "plugin", field);
  return carnot_graph_constant(f->block, name, &tensor);
}

carnot_value* front_reshape(carnot_front* f, carnot_value* x, const int64_t* dims, int rank) {
  return front_op(f, CARNOT_OP_RESHAPE, NULL, 2, x, front_ints(f, dims, rank));
}

carnot_value* front_transpose(carnot_front* f, carnot_value* x, const int64_t* perm, int rank) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, f->arena, "perm", perm, (size_t)rank);
  return front_op(f, CARNOT_OP_TRANSPOSE, &attrs, 1, x);
}

carnot_value* front_slice(carnot_front* f, carnot_value* x, int64_t axis, int64_t start,
                          int64_t end) {
  return front_op(f, CARNOT_OP_SLICE, NULL, 4, x, front_ints(f, &start, 1), front_ints(f, &end, 1),
                  front_ints(f, &axis, 1));
}

carnot_value* front_concat(carnot_front* f, int64_t axis, carnot_value* const* parts, int count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", axis);
  carnot_value* output = NULL;
  front_node(f, CARNOT_OP_CONCAT, &attrs, parts, count, &output, 1);
  return output;
}

carnot_value* front_matmul(carnot_front* f, carnot_value* a, carnot_value* b) {
  return front_op(f, CARNOT_OP_MATMUL, NULL, 2, a, b);
}

carnot_value* front_shape(carnot_front* f, carnot_value* x) {
  return front_op(f, CARNOT_OP_SHAPE, NULL, 1, x);
}
