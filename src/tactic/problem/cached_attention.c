// Reads attention with a cache from its region.
#include "tactic/problem/cached_attention.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct reader {
  const carnot_problem* problem;
  uint64_t seen;  // bit set of nodes that are part of the problem
  char* reason;
  size_t size;
} reader;

static const char* because(reader* r, const char* format, ...) CARNOT_PRINTF(2, 3);
static const char* because(reader* r, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->reason, r->size, format, args);
  va_end(args);
  return r->reason;
}

static const carnot_operand_desc* type_of(const reader* r, uint32_t local) {
  const carnot_problem* p = r->problem;
  return local < p->input_count ? &p->inputs[local] : &p->inner[local - p->input_count];
}

// A dimension that is the same in every run, or -1.
static int64_t fixed_dim(const carnot_operand_desc* t, int d) {
  return t->min[d] == t->max[d] ? t->dims[d] : -1;
}

static const carnot_plan_node* producer_of(reader* r, uint32_t local) {
  const carnot_region* region = r->problem->region;
  for (uint32_t n = 0; n < region->node_count; n++)
    for (uint32_t i = 0; i < region->nodes[n].output_count; i++)
      if (region->nodes[n].outputs[i] == local) {
        r->seen |= UINT64_C(1) << n;
        return &region->nodes[n];
      }
  return NULL;
}

static const carnot_plan_node* reader_of(reader* r, uint32_t local, carnot_op op) {
  const carnot_region* region = r->problem->region;
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].op == op && region->nodes[n].inputs[0] == local) {
      r->seen |= UINT64_C(1) << n;
      return &region->nodes[n];
    }
  return NULL;
}

static uint32_t input_of(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count ? node->inputs[i] : CARNOT_PLAN_NONE;
}

static int32_t output_of(const reader* r, uint32_t local) {
  const carnot_region* region = r->problem->region;
  for (uint32_t i = 0; local != CARNOT_PLAN_NONE && i < region->output_count; i++)
    if (region->outputs[i] == local) return (int32_t)i;
  return -1;
}

static int64_t int_attr(const carnot_plan_node* node, const char* name) {
  return carnot_attr_int(carnot_op_get(node->op), &node->attrs, name);
}

// An operand that is an input of the step of |dtype|; absent: -1.
static const char* read_input(reader* r, uint32_t local, carnot_dtype dtype, const char* what,
                              int32_t* out) {
  *out = -1;
  if (local == CARNOT_PLAN_NONE) return NULL;
  if (local >= r->problem->input_count) return because(r, "%s is made inside the region", what);
  const carnot_operand_desc* t = &r->problem->inputs[local];
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0 || t->format.dtype != dtype)
    return because(r, "%s is %s of rank %d, must be %s", what, carnot_dtype_name(t->format.dtype),
                   t->rank, carnot_dtype_name(dtype));
  *out = (int32_t)local;
  return NULL;
}

static bool swaps_heads(const carnot_plan_node* node) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  return count == 4 && perm[0] == 0 && perm[1] == 2 && perm[2] == 1 && perm[3] == 3;
}

static const char* read_rotary(reader* r, const carnot_plan_node* node, int64_t heads, int64_t size,
                               carnot_cached_source* out) {
  if (out->cosines >= 0) return "two rotary embeddings";
  if (out->layout == CARNOT_HEADS_LAST) return "a rotary embedding of [B,S,heads,size]";
  if (out->layout == CARNOT_HEADS_FLAT && int_attr(node, "num_heads") != heads)
    return because(r, "a rotary embedding of %lld heads of %lld",
                   (long long)int_attr(node, "num_heads"), (long long)heads);
  const char* why =
      read_input(r, input_of(node, 1), CARNOT_DTYPE_F32, "the cosines", &out->cosines);
  if (!why) why = read_input(r, input_of(node, 2), CARNOT_DTYPE_F32, "the sines", &out->sines);
  if (!why)
    why = read_input(r, input_of(node, 3), CARNOT_DTYPE_I64, "the positions", &out->positions);
  if (why) return why;
  out->interleaved = int_attr(node, "interleaved") != 0;
  out->turned = int_attr(node, "rotary_embedding_dim");
  if (out->turned == 0) out->turned = size;
  return out->turned > 0 && out->turned <= size && out->turned % 2 == 0
             ? NULL
             : because(r, "%lld of %lld elements turn", (long long)out->turned, (long long)size);
}

// One number that is known at build.
static bool int_of(const reader* r, uint32_t local, int64_t* out) {
  if (local >= r->problem->input_count || !carnot_is_known(&r->problem->inputs[local]))
    return false;
  const carnot_tensor* t = r->problem->inputs[local].tensor;
  if (carnot_tensor_count(t) != 1) return false;
  *out = carnot_load_i64(t->dtype, t->data, 0);
  return true;
}

// A slice or part of a split that takes whole heads; |unit|: elements that its axis counts in.
static const char* read_part(reader* r, const carnot_plan_node* node, uint32_t local, int64_t size,
                             carnot_cached_source* out) {
  int64_t axis, first = 0, last;
  if (node->op == CARNOT_OP_SPLIT) {
    axis = int_attr(node, "axis");
    for (uint32_t i = 0; i < node->output_count && node->outputs[i] != local; i++) {
      if (node->outputs[i] == CARNOT_PLAN_NONE) return "a part of a split is not read";
      const carnot_operand_desc* t = type_of(r, node->outputs[i]);
      int64_t part = fixed_dim(t, t->rank - 1);
      if (part < 0) return "the size of a part is not known";
      first += part;
    }
  } else if (node->input_count != 4 || !int_of(r, node->inputs[1], &first) ||
             !int_of(r, node->inputs[2], &last) || !int_of(r, node->inputs[3], &axis) ||
             first < 0) {
    return "a slice of unknown place";
  }
  if (axis < 0) axis += type_of(r, local)->rank;
  if (axis != 2) return because(r, "a part along axis %lld", (long long)axis);
  out->first += first * (out->layout == CARNOT_HEADS_LAST ? size : 1);
  return NULL;
}

static const char* read_reshape(reader* r, const carnot_plan_node* node, int64_t size,
                                carnot_cached_source* out) {
  const carnot_operand_desc *from = type_of(r, node->inputs[0]), *to = type_of(r, node->outputs[0]);
  if (out->layout != CARNOT_HEADS_LAST || from->rank != 3 || to->rank != 4 ||
      fixed_dim(to, 2) < 0 || fixed_dim(to, 3) != size || fixed_dim(from, 2) != to->dims[2] * size)
    return "a reshape that does not split heads";
  out->layout = CARNOT_HEADS_FLAT;
  return NULL;
}

// From an operand of the attention (or of its cache) back to an input of the step.
static const char* read_source(reader* r, uint32_t local, int64_t heads, int64_t size,
                               carnot_cached_source* out) {
  bool is_part = false;
  *out = (carnot_cached_source){.cosines = -1, .sines = -1, .positions = -1};
  out->layout = type_of(r, local)->rank == 3 ? CARNOT_HEADS_FLAT : CARNOT_HEADS_FIRST;
  for (const carnot_plan_node* node; (node = producer_of(r, local)); local = node->inputs[0]) {
    const char* why = NULL;
    if (node->op == CARNOT_OP_ROTARY_EMBEDDING && !is_part) {
      why = read_rotary(r, node, heads, size, out);
    } else if (node->op == CARNOT_OP_TRANSPOSE && swaps_heads(node) && !is_part &&
               out->layout != CARNOT_HEADS_FLAT) {
      out->layout = out->layout == CARNOT_HEADS_FIRST ? CARNOT_HEADS_LAST : CARNOT_HEADS_FIRST;
    } else if (node->op == CARNOT_OP_RESHAPE) {
      why = read_reshape(r, node, size, out);
    } else if ((node->op == CARNOT_OP_SPLIT || node->op == CARNOT_OP_SLICE) && !is_part &&
               out->layout != CARNOT_HEADS_FIRST) {
      is_part = true;
      why = read_part(r, node, local, size, out);
    } else {
      why = because(r, "%s before attention", carnot_op_get(node->op)->name);
    }
    if (why) return why;
  }
  return read_input(r, local, CARNOT_DTYPE_F32, "an operand", &out->input);
}

// Keys or values: behind a TensorScatter, or themselves. |past|: of the attention, or NONE.
static const char* read_cached(reader* r, uint32_t local, uint32_t past, uint32_t present,
                               int64_t size, carnot_cached_attention_params* p,
                               carnot_cached_source* source, int32_t* out_past,
                               int32_t* out_present) {
  const carnot_plan_node* node = producer_of(r, local);
  const char* why;
  *out_past = *out_present = -1;
  p->cache = past == CARNOT_PLAN_NONE ? CARNOT_CACHE_NONE : CARNOT_CACHE_CONCAT;
  if (node && node->op == CARNOT_OP_TENSOR_SCATTER) {
    int64_t axis = int_attr(node, "axis");
    if (p->cache != CARNOT_CACHE_NONE) return "a past besides a cache";
    if (axis != 2 && axis != -2) return because(r, "a cache along axis %lld", (long long)axis);
    if (!carnot_attr_is(carnot_op_get(node->op), &node->attrs, "mode", "linear"))
      return "a circular cache";
    p->cache = CARNOT_CACHE_SCATTER;
    past = node->inputs[0], present = node->outputs[0], local = node->inputs[1];
    why = read_input(r, input_of(node, 2), CARNOT_DTYPE_I64, "write_indices", &p->write_indices);
    if (why) return why;
  }
  if (node && node->op == CARNOT_OP_CONCAT && node->input_count == 2) {
    int64_t axis = int_attr(node, "axis");
    if (p->cache != CARNOT_CACHE_NONE) return "two pasts";
    if (axis != 2 && axis != -2) return because(r, "a concat along axis %lld", (long long)axis);
    p->cache = CARNOT_CACHE_CONCAT;
    past = node->inputs[0], present = node->outputs[0], local = node->inputs[1];
  }
  *out_present = output_of(r, present);
  why = read_input(r, past, CARNOT_DTYPE_F32, "the past", out_past);
  return why ? why : read_source(r, local, p->kv_heads, size, source);
}

static const char* read_sizes(reader* r, const carnot_plan_node* node,
                              carnot_cached_attention_params* p) {
  const carnot_operand_desc *q = type_of(r, node->inputs[0]), *k = type_of(r, node->inputs[1]),
                            *v = type_of(r, node->inputs[2]);
  if (q->rank != k->rank || q->rank != v->rank || (q->rank != 3 && q->rank != 4))
    return because(r, "operands of ranks %d, %d and %d", q->rank, k->rank, v->rank);
  p->heads = q->rank == 4 ? fixed_dim(q, 1) : int_attr(node, "q_num_heads");
  p->kv_heads = q->rank == 4 ? fixed_dim(k, 1) : int_attr(node, "kv_num_heads");
  if (p->heads < 1 || p->kv_heads < 1 || p->heads % p->kv_heads)
    return because(r, "%lld query heads and %lld key heads", (long long)p->heads,
                   (long long)p->kv_heads);
  int64_t sizes[3] = {fixed_dim(q, q->rank - 1), fixed_dim(k, q->rank - 1),
                      fixed_dim(v, q->rank - 1)};
  const int64_t counts[3] = {p->heads, p->kv_heads, p->kv_heads};
  for (int i = 0; i < 3 && q->rank == 3; i++)
    sizes[i] = sizes[i] > 0 && sizes[i] % counts[i] == 0 ? sizes[i] / counts[i] : -1;
  p->size = sizes[0], p->value_size = sizes[2];
  return sizes[0] < 1 || sizes[1] != sizes[0] || sizes[2] < 1 ? "the size of a head is not known"
                                                              : NULL;
}

// The result, behind a transpose and a reshape that put the heads last.
static const char* read_result(reader* r, const carnot_plan_node* node,
                               carnot_cached_attention_params* p) {
  uint32_t y = node->outputs[0];
  p->y_layout = type_of(r, y)->rank == 3 ? CARNOT_HEADS_FLAT : CARNOT_HEADS_FIRST;
  const carnot_plan_node* next =
      p->y_layout == CARNOT_HEADS_FIRST ? reader_of(r, y, CARNOT_OP_TRANSPOSE) : NULL;
  if (next) {
    if (!swaps_heads(next) || output_of(r, y) >= 0) return "another transpose of the result";
    y = next->outputs[0], p->y_layout = CARNOT_HEADS_LAST;
    next = reader_of(r, y, CARNOT_OP_RESHAPE);
  }
  if (next) {
    const carnot_operand_desc* to = type_of(r, next->outputs[0]);
    if (to->rank != 3 || fixed_dim(to, 2) != p->heads * p->value_size || output_of(r, y) >= 0)
      return "another reshape of the result";
    y = next->outputs[0], p->y_layout = CARNOT_HEADS_FLAT;
  }
  p->y = output_of(r, y);
  return p->y < 0 ? "nothing reads the result" : NULL;
}

static const char* read_scores(reader* r, const carnot_plan_node* node,
                               carnot_cached_attention_params* p) {
  const carnot_op_row* row = carnot_op_get(node->op);
  uint32_t mask = input_of(node, 3);
  bool is_bool =
      mask < r->problem->input_count && r->problem->inputs[mask].format.dtype == CARNOT_DTYPE_BOOL;
  const char* why =
      read_input(r, mask, is_bool ? CARNOT_DTYPE_BOOL : CARNOT_DTYPE_F32, "the mask", &p->mask);
  if (!why)
    why = read_input(r, input_of(node, 6), CARNOT_DTYPE_I64, "nonpad_kv_seqlen", &p->lengths);
  if (why) return why;
  if (p->mask >= 0 && (r->problem->inputs[mask].rank < 1 || r->problem->inputs[mask].rank > 4))
    return because(r, "a mask of rank %d", r->problem->inputs[mask].rank);
  if (node->output_count > 3 && node->outputs[3] != CARNOT_PLAN_NONE) return "the scores are read";
  p->scale = carnot_attr_has(&node->attrs, "scale")
                 ? (float)carnot_attr_float(row, &node->attrs, "scale")
                 : (float)(1 / sqrt((double)p->size));
  p->softcap = (float)carnot_attr_float(row, &node->attrs, "softcap");
  p->causal = int_attr(node, "is_causal") != 0;
  p->starts_behind = input_of(node, 4) != CARNOT_PLAN_NONE;
  p->left = int_attr(node, "left_window_size"), p->right = int_attr(node, "right_window_size");
  return NULL;
}

const char* carnot_cached_attention_read(const carnot_problem* problem,
                                         carnot_cached_attention_params* out, char* reason,
                                         size_t size) {
  reader r = {problem, 0, reason, size};
  const carnot_region* region = problem->region;
  const carnot_plan_node* node = NULL;
  *out = (carnot_cached_attention_params){.write_indices = -1};
  if (region->node_count > 64) return "too many nodes";
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].op == CARNOT_OP_ATTENTION) {
      if (node) return "two attentions";
      node = &region->nodes[n];
      r.seen |= UINT64_C(1) << n;
    }
  if (!node) return "no attention";
  const char* why = read_sizes(&r, node, out);
  if (!why) why = read_source(&r, node->inputs[0], out->heads, out->size, &out->q);
  uint32_t presents[2] = {node->output_count > 1 ? node->outputs[1] : CARNOT_PLAN_NONE,
                          node->output_count > 2 ? node->outputs[2] : CARNOT_PLAN_NONE};
  if (!why)
    why = read_cached(&r, node->inputs[1], input_of(node, 4), presents[0], out->size, out, &out->k,
                      &out->past_k, &out->present_k);
  const int32_t cache = out->cache, indices = out->write_indices;
  if (!why)
    why = read_cached(&r, node->inputs[2], input_of(node, 5), presents[1], out->value_size, out,
                      &out->v, &out->past_v, &out->present_v);
  if (!why && (cache != out->cache || indices != out->write_indices))
    why = "the caches of keys and values differ";
  if (!why) why = read_scores(&r, node, out);
  if (!why) why = read_result(&r, node, out);
  if (why) return why;
  if (out->v.cosines >= 0) return "a rotary embedding of values";
  if (r.seen != (region->node_count == 64 ? ~UINT64_C(0) : (UINT64_C(1) << region->node_count) - 1))
    return "other nodes in the region";
  uint32_t outputs = 1 + (out->present_k >= 0) + (out->present_v >= 0);
  return outputs == region->output_count ? NULL : "an inner value is read outside the region";
}

static bool is_source(const carnot_cached_source* s, int64_t inputs, int64_t size) {
  return s->input >= 0 && s->input < inputs && s->layout >= CARNOT_HEADS_FIRST &&
         s->layout <= CARNOT_HEADS_FLAT && s->first >= 0 && s->cosines >= -1 &&
         s->cosines < inputs && s->sines >= -1 && s->sines < inputs && s->positions >= -1 &&
         s->positions < inputs && (s->cosines < 0) == (s->sines < 0) &&
         (s->cosines < 0 || (s->turned > 0 && s->turned <= size && s->turned % 2 == 0));
}

carnot_status* carnot_cached_attention_check(const carnot_step_view* step) {
  const carnot_cached_attention_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(*p), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(*p));
  const int64_t inputs = step->input_count, outputs = step->output_count, most = 1 << 20;
  CARNOT_CHECK(p->heads > 0 && p->kv_heads > 0 && p->heads % p->kv_heads == 0 && p->heads < most &&
                   p->size > 0 && p->size < most && p->value_size > 0 && p->value_size < most,
               INVALID_MODEL, "%lld and %lld heads of %lld and %lld", (long long)p->heads,
               (long long)p->kv_heads, (long long)p->size, (long long)p->value_size);
  CARNOT_CHECK(is_source(&p->q, inputs, p->size) && is_source(&p->k, inputs, p->size) &&
                   is_source(&p->v, inputs, p->value_size) && p->v.cosines < 0,
               INVALID_MODEL, "queries, keys or values are no inputs of the step");
  const int32_t others[] = {p->past_k, p->past_v, p->write_indices, p->mask, p->lengths};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    CARNOT_CHECK(others[i] >= -1 && others[i] < inputs, INVALID_MODEL, "input %d of %lld",
                 others[i], (long long)inputs);
  CARNOT_CHECK(p->cache >= CARNOT_CACHE_NONE && p->cache <= CARNOT_CACHE_SCATTER &&
                   (p->cache == CARNOT_CACHE_NONE) == (p->past_k < 0) &&
                   (p->cache == CARNOT_CACHE_NONE) == (p->past_v < 0),
               INVALID_MODEL, "cache %d with past %d and %d", p->cache, p->past_k, p->past_v);
  CARNOT_CHECK(p->y >= 0 && p->y < outputs && p->present_k >= -1 && p->present_k < outputs &&
                   p->present_v >= -1 && p->present_v < outputs && p->present_k != p->y &&
                   p->present_v != p->y && (p->present_k < 0 || p->present_k != p->present_v),
               INVALID_MODEL, "outputs %d, %d and %d of %lld", p->y, p->present_k, p->present_v,
               (long long)outputs);
  CARNOT_CHECK(p->y_layout >= CARNOT_HEADS_FIRST && p->y_layout <= CARNOT_HEADS_FLAT, INVALID_MODEL,
               "layout %d of the result", p->y_layout);
  return NULL;
}
