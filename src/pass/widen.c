// Half-precision storage on the CPU: a network in float16 or bfloat16 computes in float32.
//
// Every node that computes on halves works on float32 twins of its operands; a value is rounded to
// its half type where something that must see it reads it: results, casts, quantization, control
// flow. The declared types of inputs and results stay. The result differs from rounding after each
// operator only in being nearer to the exact one.
#include <stdlib.h>

#include "pass/pass.h"

typedef struct widener {
  carnot_value** twins;  // by id of a half value: the same in float32
  uint32_t value_count;
} widener;

static bool is_half(const carnot_value* value) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR &&
         (value->type.dtype == CARNOT_DTYPE_F16 || value->type.dtype == CARNOT_DTYPE_BF16);
}

// Operators whose float32 form means the same, all of whose half operands share one type.
static bool may_widen(const carnot_node* node) {
  switch (node->op) {
    case CARNOT_OP_UNARY:
    case CARNOT_OP_BINARY:
    case CARNOT_OP_TERNARY:
    case CARNOT_OP_MATMUL:
    case CARNOT_OP_GEMM:
    case CARNOT_OP_CONV:
    case CARNOT_OP_CONV_TRANSPOSE:
    case CARNOT_OP_MAX_POOL:
    case CARNOT_OP_AVERAGE_POOL:
    case CARNOT_OP_REDUCE:
    case CARNOT_OP_SOFTMAX:
    case CARNOT_OP_LOG_SOFTMAX:
    case CARNOT_OP_BATCH_NORM:
    case CARNOT_OP_INSTANCE_NORM:
    case CARNOT_OP_LAYER_NORM:
    case CARNOT_OP_GROUP_NORM:
    case CARNOT_OP_RMS_NORM:
    case CARNOT_OP_LRN:
    case CARNOT_OP_RESIZE:
    case CARNOT_OP_RESHAPE:
    case CARNOT_OP_SQUEEZE:
    case CARNOT_OP_UNSQUEEZE:
    case CARNOT_OP_EXPAND:
    case CARNOT_OP_TRANSPOSE:
    case CARNOT_OP_CONCAT:
    case CARNOT_OP_SPLIT:
    case CARNOT_OP_SLICE:
    case CARNOT_OP_PAD:
    case CARNOT_OP_TILE:
    case CARNOT_OP_GATHER:
    case CARNOT_OP_DEPTH_TO_SPACE:
    case CARNOT_OP_SPACE_TO_DEPTH:
    case CARNOT_OP_DROPOUT:
    case CARNOT_OP_IDENTITY: break;
    default: return false;
  }
  bool any = false;
  for (int i = 0; i < node->output_count; i++) any |= is_half(node->outputs[i]);
  for (int i = 0; i < node->input_count; i++) any |= is_half(node->inputs[i]);
  return any;
}

// The float32 twin of a half value, cast before |at| where there is none yet.
static carnot_status* twin_of(widener* w, carnot_node* at, carnot_value* value,
                              carnot_value** out) {
  if (value->id < w->value_count && w->twins[value->id]) {
    *out = w->twins[value->id];
    return NULL;
  }
  CARNOT_TRY(carnot_insert_cast(at, value, CARNOT_DTYPE_F32, out));
  if (value->id < w->value_count && !value->constant) w->twins[value->id] = *out;
  return NULL;
}

static carnot_status* widen_node(widener* w, carnot_node* node) {
  carnot_value** inputs =
      CARNOT_NEW_ARRAY(&node->block->graph->arena, carnot_value*, (size_t)node->input_count + 1);
  for (int i = 0; i < node->input_count; i++) {
    inputs[i] = node->inputs[i];
    if (is_half(inputs[i])) CARNOT_TRY(twin_of(w, node, inputs[i], &inputs[i]));
  }
  carnot_node* wide;
  CARNOT_TRY(carnot_node_insert_before(node, node->op, node->name, &node->attrs, inputs,
                                       node->input_count, node->output_count, &wide));
  wide->type_name = node->type_name;
  for (int i = 0; i < node->output_count; i++) {
    carnot_value* old = node->outputs[i];
    if (!old) continue;
    if (!is_half(old)) {
      carnot_value_replace(old, wide->outputs[i]);
      continue;
    }
    wide->outputs[i]->name = old->name;
    w->twins[old->id] = wide->outputs[i];
    carnot_value* narrow;
    CARNOT_TRY(carnot_insert_cast(node, wide->outputs[i], old->type.dtype, &narrow));
    // Readers that stay in half precision see the rounded value; those that are widened find the
    // twin.
    if (narrow->id >= w->value_count) {
      size_t capacity = w->value_count;
      void* twins = w->twins;
      CARNOT_TRY(carnot_grow(&twins, &capacity, narrow->id + 1, sizeof(*w->twins), "values"));
      w->twins = twins;
      w->value_count = (uint32_t)capacity;
    }
    w->twins[narrow->id] = wide->outputs[i];
    carnot_value_replace(old, narrow);
  }
  carnot_node_remove(node);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  widener w = {.value_count = block->graph->value_count + 1};
  (void)user;
  void* twins;
  CARNOT_TRY(carnot_calloc(w.value_count, sizeof(*w.twins), "values", &twins));
  w.twins = twins;
  carnot_status* status = NULL;
  for (carnot_node *node = block->first, *next; node && !status; node = next) {
    next = node->next;
    if (may_widen(node)) status = widen_node(&w, node);
  }
  free(w.twins);
  return status;
}

carnot_status* carnot_pass_widen(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  CARNOT_TRY(carnot_pass_dead(graph, options));
  return carnot_pass_fold(graph, options);
}
