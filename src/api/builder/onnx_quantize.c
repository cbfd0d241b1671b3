// ONNX files with Q/DQ nodes: where these belong is decided on the graph (pass/insert_qdq.c), then
// the same nodes are written into the model's file.
#include <math.h>
#include <stdio.h>

#include "api/builder/config.h"
#include "api/builder/network.h"
#include "carnot/onnx.h"
#include "import/onnx/model_edit.h"
#include "ops/block_rounding.h"

typedef struct quantizer {
  onnx_edit edit;
  import_name_map written;  // by tensor, or weight and axis: the name of its dequantized form
  const carnot_onnx_quantize_options* options;
  size_t layer_count;
} quantizer;

static const char* find_written(const quantizer* q, const char* key) {
  const import_name_slot* slot = import_name_map_find(&q->written, carnot_view(key));
  return slot ? slot->item : NULL;
}

static void note_written(quantizer* q, const char* key, const char* name) {
  import_name_map_set(&q->written, carnot_view(key), (void*)(uintptr_t)name);
}

// ---- Q/DQ nodes of the graph ----

static const char* write_tensor(quantizer* q, const char* base, const char* suffix,
                                const carnot_tensor* tensor) {
  const char* name = onnx_edit_new_name(&q->edit, base, suffix);
  onnx_edit_add_initializer(&q->edit, name, tensor);
  return name;
}

// The zero point of a node without one, of the type of |like|: it says that type.
static const char* write_zero(quantizer* q, const char* base, const carnot_node* node,
                              const carnot_tensor* scale, carnot_dtype dtype) {
  if (node->input_count > 2 && node->inputs[2])
    return write_tensor(q, base, "_zero_point", &node->inputs[2]->constant->tensor);
  carnot_tensor zero = *scale;
  zero.dtype = dtype;
  zero.data = carnot_arena_alloc(&q->edit.arena, carnot_tensor_bytes(&zero) + 1, 1);
  return zero.data ? write_tensor(q, base, "_zero_point", &zero) : "";
}

// Writes |tensor| of the model quantized and dequantized, behind the node that makes it.
static const char* write_activation(quantizer* q, const char* tensor, const carnot_node* quantize) {
  const char* name = find_written(q, tensor);
  if (name) return name;
  const onnx_node* maker = onnx_edit_maker(&q->edit, tensor);
  const size_t at = maker ? onnx_edit_index(&q->edit, maker) + 1 : 0;
  const carnot_tensor* number = &quantize->inputs[1]->constant->tensor;
  const char* scale = write_tensor(q, tensor, "_scale", number);
  const char* zero = write_zero(q, tensor, quantize, number, quantize->outputs[0]->type.dtype);
  const char* bytes = onnx_edit_new_name(&q->edit, tensor, "_quantized");
  name = onnx_edit_new_name(&q->edit, tensor, "_dequantized");
  onnx_edit_insert(&q->edit, at, "QuantizeLinear", (const char* const[3]){tensor, scale, zero},
                   bytes, /*axis=*/-1, /*block_size=*/0);
  onnx_edit_insert(&q->edit, at, "DequantizeLinear", (const char* const[3]){bytes, scale, zero},
                   name, /*axis=*/-1, /*block_size=*/0);
  note_written(q, tensor, name);
  return name;
}

// Writes the weight |tensor| of the model as |dequantize| has it, in front of |reader|.
static const char* write_weight(quantizer* q, const char* tensor, const carnot_node* dequantize,
                                const onnx_node* reader) {
  const int64_t axis = carnot_attr_int(carnot_node_row(dequantize), &dequantize->attrs, "axis");
  const char* key = carnot_arena_print(&q->edit.arena, "%s/%lld", tensor, (long long)axis);
  const char* name = key ? find_written(q, key) : "";
  if (name) return name;
  const carnot_tensor* bytes = &dequantize->inputs[0]->constant->tensor;
  const carnot_tensor* scales = &dequantize->inputs[1]->constant->tensor;
  const char* inputs[3] = {write_tensor(q, tensor, "_quantized", bytes),
                           write_tensor(q, tensor, "_scale", scales),
                           write_zero(q, tensor, dequantize, scales, bytes->dtype)};
  name = onnx_edit_new_name(&q->edit, tensor, "_dequantized");
  onnx_edit_insert(&q->edit, onnx_edit_index(&q->edit, reader), "DequantizeLinear", inputs, name,
                   scales->rank ? axis : -1, /*block_size=*/0);
  note_written(q, key, name);
  return name;
}

static const char* text_of(quantizer* q, carnot_strview view) {
  return carnot_arena_text(&q->edit.arena, view.data, view.size);
}

// The input of |node| called |name|; -1: it has none.
static int input_called(const onnx_node* node, const char* name) {
  for (size_t i = 0; i < node->input.count; i++)
    if (carnot_view_is(node->input.items[i], name)) return (int)i;
  return -1;
}

static const carnot_node* new_producer(const carnot_value* value, carnot_op op, size_t old_count) {
  const carnot_node* node = value ? value->producer : NULL;
  return node && node->op == op && node->outputs[0]->id >= old_count ? node : NULL;
}

// Writes what |node| of the graph reads dequantized, where the model has the node too.
static void write_node(quantizer* q, const carnot_node* node, size_t old_count) {
  onnx_node* in_model = onnx_edit_maker(&q->edit, node->outputs[0]->name);
  if (!in_model) return;
  for (int i = 0; i < node->input_count; i++) {
    const carnot_node* d = new_producer(node->inputs[i], CARNOT_OP_DEQUANTIZE_LINEAR, old_count);
    if (!d) continue;
    const carnot_node* made = new_producer(d->inputs[0], CARNOT_OP_QUANTIZE_LINEAR, old_count);
    if (made) {
      const char* tensor = made->inputs[0]->name;
      const int at = input_called(in_model, tensor);
      if (at < 0 || !onnx_edit_has_tensor(&q->edit, tensor)) continue;
      onnx_edit_set_input(&q->edit, in_model, (size_t)at, write_activation(q, tensor, made));
    } else if (i == 1 && in_model->input.count > 1 && d->inputs[0]->constant) {
      const char* tensor = text_of(q, in_model->input.items[1]);
      if (!tensor) return;
      onnx_edit_set_input(&q->edit, in_model, 1, write_weight(q, tensor, d, in_model));
      q->layer_count++;
    }
  }
}

// Batch normalization behind a quantized layer keeps its result from being quantized with it.
static void warn_of_batch_norms(const carnot_graph* graph, const carnot_build_config* config) {
  size_t count = 0;
  char text[256];
  for (const carnot_node* node = graph->main->first; node; node = node->next) {
    const carnot_node* layer =
        node->op == CARNOT_OP_BATCH_NORM && node->inputs[0] ? node->inputs[0]->producer : NULL;
    if (!layer || layer->input_count < 2 || !layer->inputs[1]) continue;
    const carnot_node* w = layer->inputs[1]->producer;
    count += w && w->op == CARNOT_OP_DEQUANTIZE_LINEAR;
  }
  if (!count || !config->log) return;
  snprintf(
      text, sizeof(text),
      "%zu batch normalizations compute in float32 behind quantized layers: fold them into the "
      "weights before",
      count);
  config->log(config->user, 1, text);
}

static carnot_status* write_qdq(quantizer* q, carnot_graph* graph, const carnot_config* config) {
  const size_t old_count = graph->value_count;
  const carnot_qdq_style style = {.type = q->options->type,
                                  .is_exported = true,
                                  .rounds_results = q->options->around_results,
                                  .attention = q->options->attention};
  carnot_build_config build = carnot_config_for_builder(config);
  build.ranges = config ? config->build.ranges : NULL;
  CARNOT_CHECK(build.ranges && carnot_ranges_count(build.ranges), INVALID_ARGUMENT,
               "there are no ranges: 8-bit types need a calibration or a calibration cache");
  CARNOT_TRY(carnot_quantize_graph(graph, &build, &style));
  for (const carnot_node* node = graph->main->first; node; node = node->next)
    write_node(q, node, old_count);
  warn_of_batch_norms(graph, &build);
  return NULL;
}

// ---- 4-bit weights ----

// The axis of K among the dimensions of the constant weight of |node|; -1: it has none.
static int depth_axis(const carnot_node* node) {
  const carnot_value* w = node->input_count > 1 ? node->inputs[1] : NULL;
  if ((node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM) || !w || !w->constant ||
      !w->constant->tensor.data || w->type.dtype != CARNOT_DTYPE_F32 || w->type.rank != 2 ||
      node->precision != CARNOT_DTYPE_INVALID)
    return -1;
  return node->op == CARNOT_OP_GEMM &&
                 carnot_attr_int(carnot_node_row(node), &node->attrs, "transB")
             ? 1
             : 0;
}

static carnot_status* check_finite(const char* name, const carnot_tensor* w) {
  const float* numbers = w->data;
  const int64_t count = carnot_tensor_count(w);
  for (int64_t i = 0; i < count; i++)
    CARNOT_CHECK(isfinite(numbers[i]), INVALID_ARGUMENT, "weight %s: element %lld is %g", name,
                 (long long)i, (double)numbers[i]);
  return NULL;
}

static carnot_status* write_blocks(quantizer* q, const carnot_node* node, int axis) {
  onnx_node* in_model = onnx_edit_maker(&q->edit, node->outputs[0]->name);
  if (!in_model || in_model->input.count < 2) return NULL;
  const carnot_tensor* w = &node->inputs[1]->constant->tensor;
  const int64_t block = q->options->block_size ? q->options->block_size : 32;
  const char* tensor = text_of(q, in_model->input.items[1]);
  const char* key = carnot_arena_print(&q->edit.arena, "%s/%d", tensor ? tensor : "", axis);
  CARNOT_TRY(carnot_arena_status(&q->edit.arena));
  CARNOT_TRY(check_finite(tensor, w));
  const char* name = find_written(q, key);
  if (!name) {
    carnot_tensor scale = {.dtype = CARNOT_DTYPE_F32, .rank = 2, .dims = {w->dims[0], w->dims[1]}};
    carnot_tensor bits = scale;
    scale.dims[axis] = carnot_ceildiv(w->dims[axis], block);
    bits.dtype = CARNOT_DTYPE_I4;
    scale.data = carnot_arena_alloc(&q->edit.arena, carnot_tensor_bytes(&scale) + 1, 1);
    bits.data = carnot_arena_alloc(&q->edit.arena, carnot_tensor_bytes(&bits) + 1, 1);
    CARNOT_TRY(carnot_arena_status(&q->edit.arena));
    carnot_round_blocks_i4(w->data, w->dims, axis, block, (float*)scale.data, (uint8_t*)bits.data);
    const char* inputs[3] = {write_tensor(q, tensor, "_quantized", &bits),
                             write_tensor(q, tensor, "_scale", &scale), NULL};
    name = onnx_edit_new_name(&q->edit, tensor, "_dequantized");
    onnx_edit_insert(&q->edit, onnx_edit_index(&q->edit, in_model), "DequantizeLinear", inputs,
                     name, axis, block);
    note_written(q, key, name);
  }
  onnx_edit_set_input(&q->edit, in_model, 1, name);
  q->layer_count++;
  return NULL;
}

static carnot_status* write_4_bits(quantizer* q, carnot_graph* graph, const carnot_config* config) {
  const carnot_build_config build = carnot_config_for_builder(config);
  CARNOT_TRY(carnot_precision_constraints_apply(graph, &build.typing, build.log, build.user));
  for (const carnot_node* node = graph->main->first; node; node = node->next) {
    const int axis = depth_axis(node);
    if (axis >= 0) CARNOT_TRY(write_blocks(q, node, axis));
  }
  return NULL;
}

// ---- the file ----

// What each type needs of a model's file.
typedef struct type_row {
  carnot_dtype type;
  int64_t opset, ir_version;
} type_row;

static const type_row* row_of(carnot_dtype type) {
  static const type_row kRows[] = {{CARNOT_DTYPE_I8, 13, 7},
                                   {CARNOT_DTYPE_U8, 13, 7},
                                   {CARNOT_DTYPE_F8E4M3FN, 19, 9},
                                   {CARNOT_DTYPE_I4, 21, 10}};
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); i++)
    if (kRows[i].type == type) return &kRows[i];
  return NULL;
}

static carnot_status* quantize(quantizer* q, const carnot_network* network,
                               const carnot_config* config, const char* path) {
  const type_row* row = row_of(q->options->type);
  const int64_t opset = onnx_edit_opset(&q->edit);
  CARNOT_CHECK(opset >= row->opset, FAILED_PRECONDITION,
               "%s needs opset %lld, the model has %lld: convert it first "
               "(onnx.version_converter)",
               carnot_dtype_name(row->type), (long long)row->opset, (long long)opset);
  carnot_graph* graph;
  carnot_graph_restore_constants(network->graph);
  CARNOT_TRY(carnot_graph_clone(network->graph, &graph));
  carnot_status* status =
      row->type == CARNOT_DTYPE_I4 ? write_4_bits(q, graph, config) : write_qdq(q, graph, config);
  status = carnot_arena_end(&q->edit.arena, carnot_graph_end(graph, status));
  if (!status && !q->layer_count)
    status = CARNOT_ERROR(INVALID_ARGUMENT,
                          "no layer can be quantized: %s with constant float32 weights%s are",
                          row->type == CARNOT_DTYPE_I4 ? "GEMMs" : "convolutions and GEMMs",
                          row->type == CARNOT_DTYPE_I4 ? "" : " and a range of their input");
  if (!status) status = onnx_edit_write(&q->edit, row->ir_version, path);
  carnot_graph_destroy(graph);
  return status;
}

carnot_status* carnot_onnx_quantize_file(const char* model_path, const carnot_network* network,
                                         const carnot_config* config,
                                         const carnot_onnx_quantize_options* options,
                                         const char* path, size_t* out_count) {
  *out_count = 0;
  CARNOT_CHECK(model_path && network && options && path, INVALID_ARGUMENT,
               "quantizing a model takes its path, its network, options and a path");
  CARNOT_CHECK(row_of(options->type), INVALID_ARGUMENT,
               "a model is quantized to int8, uint8, float8e4m3fn or int4, not to %s",
               carnot_dtype_name(options->type));
  const int block = options->block_size;
  CARNOT_CHECK(!block || (block >= 16 && !(block & (block - 1))), INVALID_ARGUMENT,
               "the block size is %d, must be a power of two from 16 on", block);
  CARNOT_CHECK(!options->attention || options->type == CARNOT_DTYPE_F8E4M3FN, INVALID_ARGUMENT,
               "attention is quantized to float8e4m3fn, not to %s",
               carnot_dtype_name(options->type));
  quantizer q = {.options = options};
  CARNOT_TRY(onnx_edit_open(model_path, &q.edit));
  q.written.arena = &q.edit.arena;
  carnot_status* status = quantize(&q, network, config, path);
  *out_count = status ? 0 : q.layer_count;
  onnx_edit_close(&q.edit);
  return carnot_status_annotate(status, "%s", model_path);
}
