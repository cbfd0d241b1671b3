// Fuses scaled dot-product attention, softmax(q k^T * scale + mask) v, into one region where a
// kernel of the target takes it.
//
// The region includes transposes, scales and reshapes of q, k and v (and the transpose of the
// result) as long as the elements of a head stay contiguous: the kernel then reads the heads where
// the projections wrote them. A guard against rows without any key (exporters write NaN -> 0) is
// included, too.
//
// Heads that a split, gathers or slices cut from a transposed projection, [3, batch, heads, ..],
// are read from the projection: q, k and v get a slice and a transpose each, which the region
// takes.
//
// Products over the heads (mix_heads) in front of and behind the softmax are part of it.
//
// Where q, k and v are dequantized bytes, the region takes their dequantize nodes along and the
// conversions of the scores and of softmax's result to bytes and back; transposes and slices of q,
// k and v then move bytes. Between FP8 values attention may compute in half precision, with casts
// behind dequantize nodes and before quantize nodes. The quantize node of the result, with the cast
// to float32 before it, joins where a kernel takes it.
//
// On an accelerator fuse_quantized_attention takes attention between 8-bit integers before
// convert_to_mixed_precision would store its scores in half precision.
#include "pass/emit.h"

enum { kMaxNodes = 32, kMaxCuts = 3 };

typedef struct match {
  carnot_dtype dtype;             // of all tensors but the mask and bytes
  bool is_quantized;              // q, k and v are dequantized
  carnot_node* nodes[kMaxNodes];  // in any order, up to the MatMul of the values
  int count;
  int float_count;  // without the quantize node of the result and what is taken with it
  // Operands that were given a slice of their own, to be given back where no kernel takes the
  // whole.
  struct {
    carnot_node* reader;
    int input;
    carnot_value* before;
  } cuts[kMaxCuts];
  int cut_count;
  carnot_status* status;
} match;

static bool take(match* m, carnot_node* node) {
  if (m->count == kMaxNodes) return false;
  m->nodes[m->count++] = node;
  return true;
}

// The producer of |value| when |reader| alone reads it.
static carnot_node* sole_producer(const carnot_value* value, const carnot_node* reader) {
  carnot_node* node = value ? value->producer : NULL;
  return node && node->block == reader->block && node->output_count == 1 &&
                 carnot_only_user(value) == reader
             ? node
             : NULL;
}

static bool is_conversion(const carnot_node* node) {
  return node->op == CARNOT_OP_QUANTIZE_LINEAR || node->op == CARNOT_OP_DEQUANTIZE_LINEAR;
}

static bool is_cast_to(const carnot_node* node, carnot_dtype dtype) {
  return node && node->op == CARNOT_OP_CAST && node->outputs[0]->type.dtype == dtype;
}

static bool dequantizes(const carnot_node* reader, int input) {
  const carnot_node* from = reader->inputs[input]->producer;
  const carnot_dtype dtype = reader->outputs[0]->type.dtype;
  if (carnot_dtype_is_half(dtype) && is_cast_to(from, dtype)) from = from->inputs[0]->producer;
  return from && from->op == CARNOT_OP_DEQUANTIZE_LINEAR;
}

// The dequantize node that makes |value| for |reader| alone, behind a cast to half precision, which
// is taken. NULL: there is none.
static carnot_node* take_cast_to_half(match* m, const carnot_value* value,
                                      const carnot_node* reader) {
  carnot_node* node = sole_producer(value, reader);
  if (carnot_dtype_is_half(m->dtype) && is_cast_to(node, m->dtype)) {
    carnot_node* from = sole_producer(node->inputs[0], node);
    if (!from || from->op != CARNOT_OP_DEQUANTIZE_LINEAR || !take(m, node)) return NULL;
    return from;
  }
  return node && node->op == CARNOT_OP_DEQUANTIZE_LINEAR ? node : NULL;
}

// |node| dequantizes what a quantize node makes and alone reads: takes both. *out is what is
// quantized.
static bool take_conversions(match* m, carnot_node* node, carnot_value** out) {
  carnot_node* from = sole_producer(node->inputs[0], node);
  if (!from || from->op != CARNOT_OP_QUANTIZE_LINEAR || !take(m, node) || !take(m, from))
    return false;
  carnot_node* cast = sole_producer(from->inputs[0], from);
  if (carnot_dtype_is_half(m->dtype) && is_cast_to(cast, CARNOT_DTYPE_F32)) {
    if (!take(m, cast)) return false;
    from = cast;
  }
  *out = from->inputs[0];
  return true;
}

// The node that makes |value| for |reader| alone, behind conversions to bytes and back, which are
// taken. *reader is the node that reads its result.
static carnot_node* producer_behind(match* m, carnot_value* value, const carnot_node** reader) {
  carnot_node* node = m->is_quantized ? take_cast_to_half(m, value, *reader) : NULL;
  if (!node) return sole_producer(value, *reader);
  if (!take_conversions(m, node, &value)) return NULL;
  *reader = m->nodes[m->count - 1];
  return sole_producer(value, *reader);
}

static bool is_typed(const match* m, const carnot_value* value, int least_rank) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR && value->type.dtype == m->dtype &&
         value->type.rank >= least_rank;
}

// Multiplied by one constant; the other operand.
static carnot_value* scaled(const carnot_node* node) {
  double factor;
  if (carnot_node_is_fn(node, CARNOT_FN_MUL)) {
    if (carnot_value_scalar(node->inputs[1], &factor)) return node->inputs[0];
    return carnot_value_scalar(node->inputs[0], &factor) ? node->inputs[1] : NULL;
  }
  bool divided = carnot_node_is_fn(node, CARNOT_FN_DIV) &&
                 carnot_value_scalar(node->inputs[1], &factor) && factor != 0;
  return divided ? node->inputs[0] : NULL;
}

// A reshape that keeps the last two dimensions.
static bool regroups_batch(const carnot_node* node) {
  if (!carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW)) return false;
  const carnot_type *a = &node->inputs[0]->type, *b = &node->outputs[0]->type;
  return a->rank >= 2 && b->rank >= 2 &&
         carnot_sym_same(a->dims[a->rank - 1], b->dims[b->rank - 1]) &&
         carnot_sym_same(a->dims[a->rank - 2], b->dims[b->rank - 2]);
}

// The axis of a transpose's input that axis |axis| of its result is.
static int source_axis(const carnot_node* node, int axis) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  int rank = node->inputs[0]->type.rank;
  return perm && count == (size_t)rank ? (int)perm[axis] : rank - 1 - axis;
}

static bool keeps_batch(const carnot_node* node) {
  int rank = node->inputs[0]->type.rank;
  for (int d = 0; d + 2 < rank; d++)
    if (source_axis(node, d) != d) return false;
  return true;
}

// A slice along one of the axes before the elements of a head, as fuse_qkv_projections makes them.
static bool cuts_heads(const carnot_node* node) {
  int64_t axis;
  return node->op == CARNOT_OP_SLICE && node->input_count == 4 &&
         carnot_value_ints(node->inputs[1], &axis, 1) == 1 &&
         carnot_value_ints(node->inputs[2], &axis, 1) == 1 &&
         carnot_value_ints(node->inputs[3], &axis, 1) == 1 && axis >= 0 &&
         axis + 1 < node->inputs[0]->type.rank;
}

// What one result of a split, a gather by one index or a slice takes of its operand.
typedef struct part {
  int64_t axis, first, last;
  bool squeezes;  // a gather drops the axis
} part;

static bool read_slice(const carnot_node* node, part* out) {
  const carnot_type* from = &node->inputs[0]->type;
  *out = (part){.squeezes = false};
  if (node->input_count != 4 || carnot_value_ints(node->inputs[1], &out->first, 1) != 1 ||
      carnot_value_ints(node->inputs[3], &out->axis, 1) != 1)
    return false;
  if (out->axis < 0) out->axis += from->rank;
  if (out->first < 0 || out->axis < 0 || out->axis >= from->rank ||
      !carnot_sym_is_const(node->outputs[0]->type.dims[out->axis]))
    return false;
  out->last = out->first + node->outputs[0]->type.dims[out->axis].bits;
  return true;
}

static bool read_part(const carnot_value* value, part* out) {
  const carnot_node* node = value->producer;
  const carnot_type* from = node->input_count ? &node->inputs[0]->type : NULL;
  if (!from || from->rank < 3) return false;
  if (node->op == CARNOT_OP_SLICE) return read_slice(node, out);
  *out = (part){.axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis")};
  if (out->axis < 0) out->axis += from->rank;
  if (out->axis < 0 || out->axis >= from->rank) return false;
  if (node->op == CARNOT_OP_GATHER) {
    out->squeezes = true;
    bool scalar = node->inputs[1]->type.rank == 0 &&
                  carnot_value_ints(node->inputs[1], &out->first, 1) == 1 && out->first >= 0;
    out->last = out->first + 1;
    return scalar;
  }
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i] || !carnot_sym_is_const(node->outputs[i]->type.dims[out->axis]))
      return false;
    out->last = out->first + node->outputs[i]->type.dims[out->axis].bits;
    if (node->outputs[i] == value) return true;
    out->first = out->last;
  }
  return false;
}

// |value|, which |reader| alone reads, is a part of a transposed tensor: gives |reader| the same by
// a slice and a transpose of its own. The node that makes it now; NULL: it is no such part.
static carnot_node* cut_before(match* m, carnot_value* value, carnot_node* reader) {
  carnot_node* node = value->producer;
  part cut;
  if (m->is_quantized || m->cut_count == kMaxCuts || !node || node->block != reader->block ||
      (node->op != CARNOT_OP_SPLIT && node->op != CARNOT_OP_GATHER &&
       node->op != CARNOT_OP_SLICE) ||
      carnot_only_user(value) != reader || !read_part(value, &cut))
    return NULL;
  carnot_node* turn = node->inputs[0]->producer;
  if (!turn || turn->op != CARNOT_OP_TRANSPOSE || turn->block != node->block) return NULL;
  carnot_emitter e = {.at = node, .name = node->name};
  const int64_t axis = source_axis(turn, (int)cut.axis);
  carnot_value* inputs[4] = {turn->inputs[0], carnot_emit_ints(&e, &cut.first, 1),
                             carnot_emit_ints(&e, &cut.last, 1), carnot_emit_ints(&e, &axis, 1)};
  carnot_value* x = carnot_emit(&e, CARNOT_OP_SLICE, NULL, inputs, 4);
  if (x) x = carnot_emit(&e, CARNOT_OP_TRANSPOSE, &turn->attrs, &x, 1);
  if (x && cut.squeezes) x = carnot_emit_squeeze(&e, x, cut.axis);
  m->status = e.status;
  if (!x || !carnot_same_dims(&x->type, &value->type)) return NULL;
  for (int i = 0; i < reader->input_count; i++) {
    if (reader->inputs[i] != value) continue;
    m->cuts[m->cut_count].reader = reader;
    m->cuts[m->cut_count].input = i;
    m->cuts[m->cut_count++].before = value;
    carnot_node_set_input(reader, i, x);
    return x->producer;
  }
  return NULL;
}

// Gives the last cut back.
static void undo_cut(match* m) {
  const int i = --m->cut_count;
  carnot_node_set_input(m->cuts[i].reader, m->cuts[i].input, m->cuts[i].before);
}

static void undo_cuts(match* m) {
  while (m->cut_count) undo_cut(m);
}

// take_views with cuts, or without. *out_undone: the slice of a cut was not taken.
static bool try_views(match* m, carnot_value* value, carnot_node* reader, int axis, bool may_cut,
                      bool* out_undone) {
  int best = axis == 1 ? m->count : -1;
  enum { kNoCut = -2 };
  int best_uncut = kNoCut;  // |best| before a cut whose slice is not taken yet
  bool open = true;         // no permutation of the batches yet
  while (is_typed(m, value, 2)) {
    const int cuts = m->cut_count;
    carnot_node* node = open && may_cut ? cut_before(m, value, reader) : NULL;
    if (m->cut_count > cuts) best_uncut = best;
    if (!node) node = sole_producer(value, reader);
    if (!node) break;
    if (cuts_heads(node)) {
      if (axis == 1 && take(m, node)) best = m->count, best_uncut = kNoCut;
      break;
    }
    if (!open) break;  // behind one, only a slice can be seen through
    carnot_value* from =
        node->op == CARNOT_OP_TRANSPOSE || regroups_batch(node) ? node->inputs[0] : scaled(node);
    if (!is_typed(m, from, 2) || (from->type.rank != value->type.rank && !regroups_batch(node)) ||
        !take(m, node))
      break;
    if (node->op == CARNOT_OP_TRANSPOSE) {
      open = keeps_batch(node);
      axis = value->type.rank - source_axis(node, value->type.rank - axis);
    }
    reader = node;
    value = from;
    if (axis == 1 && !regroups_batch(node)) best = m->count;
  }
  *out_undone = best_uncut != kNoCut;
  if (*out_undone) undo_cut(m);
  if (best >= 0) m->count = best;
  return best >= 0;
}

// Takes what precedes |value|, whose axis |axis| from the end (1 or 2) holds the elements of a
// head, for |reader|. False when these cannot be read next to one another.
static bool take_views(match* m, carnot_value* value, carnot_node* reader, int axis) {
  const int count = m->count;
  bool undone;
  const bool taken = try_views(m, value, reader, axis, /*may_cut=*/true, &undone);
  if (!undone) return taken;
  m->count = count;  // as it was: a slice may be taken where it stands
  return try_views(m, value, reader, axis, /*may_cut=*/false, &undone);
}

// The dequantize node that makes |value| for |reader|, behind scales and a cast to half precision,
// which are taken. NULL: there is none.
static carnot_node* take_scales(match* m, const carnot_value* value, const carnot_node* reader) {
  for (;;) {
    carnot_node* node = sole_producer(value, reader);
    if (!node || node->op == CARNOT_OP_DEQUANTIZE_LINEAR) return node;
    value = is_cast_to(node, m->dtype) ? node->inputs[0] : scaled(node);
    if (!carnot_dtype_is_half(m->dtype) || !value || !take(m, node)) return NULL;
    reader = node;
  }
}

// Takes what precedes input |input| of a MatMul, from its dequantize node on where it has one.
static bool take_operand(match* m, carnot_node* matmul, int input, int axis) {
  if (!m->is_quantized) return take_views(m, matmul->inputs[input], matmul, axis);
  carnot_node* from = take_scales(m, matmul->inputs[input], matmul);
  if (!from || !take(m, from)) return false;
  const carnot_dtype dtype = m->dtype;
  m->dtype = from->inputs[0]->type.dtype;
  const bool taken = take_views(m, from->inputs[0], from, axis);
  m->dtype = dtype;
  return taken;
}

static bool is_zero(const carnot_value* value) {
  double number;
  return carnot_value_scalar(value, &number) && number == 0;
}

// |node| is select(is_nan(p), 0, p) and alone reads p, but for the test: p.
static carnot_value* guarded(match* m, carnot_node* node) {
  if (!node || node->op != CARNOT_OP_TERNARY || !carnot_node_is_fn(node, CARNOT_FN_SELECT) ||
      !is_zero(node->inputs[1]))
    return NULL;
  carnot_value* p = node->inputs[2];
  carnot_node* test = sole_producer(node->inputs[0], node);
  bool fits = carnot_node_is_fn(test, CARNOT_FN_IS_NAN) && test->inputs[0] == p &&
              p->use_count == 2 && !p->block_output_count;
  return fits && take(m, node) && take(m, test) ? p : NULL;
}

static bool is_plain_matmul(const match* m, const carnot_node* node) {
  return node && node->op == CARNOT_OP_MATMUL && is_typed(m, node->outputs[0], 3) &&
         !carnot_attr_int(carnot_node_row(node), &node->attrs, "transA") &&
         carnot_attr_float(carnot_node_row(node), &node->attrs, "alpha") == 1;
}

// A mask with one number for each key, broadcast over the rest.
static bool is_mask(const match* m, const carnot_value* value, const carnot_value* scores) {
  if (!is_typed(m, value, 1) || value->type.rank > scores->type.rank) return false;
  for (int d = 1; d <= value->type.rank; d++) {
    carnot_sym dim = value->type.dims[value->type.rank - d],
               full = scores->type.dims[scores->type.rank - d];
    if (!carnot_sym_same(dim, full) && (d == 1 || !carnot_sym_is(dim, 1))) return false;
  }
  return true;
}

// Behind a product over the heads, which is taken: its operand's producer; else |node|.
static carnot_node* behind_mix(match* m, carnot_node* node, const carnot_node** reader) {
  if (!node || node->op != CARNOT_OP_MIX_HEADS || m->is_quantized || !take(m, node)) return node;
  *reader = node;
  return producer_behind(m, node->inputs[0], reader);
}

// From the softmax back to the matmul of q and k.
static bool take_scores(match* m, carnot_node* softmax) {
  int rank = softmax->inputs[0]->type.rank;
  int64_t axis = carnot_attr_int(carnot_node_row(softmax), &softmax->attrs, "axis");
  if (!is_typed(m, softmax->inputs[0], 3) || (axis != -1 && axis != rank - 1) || !take(m, softmax))
    return false;
  const carnot_node* reader = softmax;
  carnot_node* node = producer_behind(m, softmax->inputs[0], &reader);
  node = behind_mix(m, node, &reader);
  if (carnot_node_is_fn(node, CARNOT_FN_ADD)) {
    int at = is_mask(m, node->inputs[1], node->outputs[0]) && sole_producer(node->inputs[0], node)
                 ? 0
                 : 1;
    if (!is_mask(m, node->inputs[1 - at], node->outputs[0]) ||
        !is_typed(m, node->inputs[at], rank) || !take(m, node))
      return false;
    carnot_node* cast = sole_producer(node->inputs[1 - at], node);
    if (cast && cast->op == CARNOT_OP_CAST && cast->inputs[0]->type.dtype == CARNOT_DTYPE_F32 &&
        !take(m, cast))
      return false;
    reader = node;
    node = producer_behind(m, node->inputs[at], &reader);
  }
  if (node && scaled(node)) {
    if (!take(m, node)) return false;
    reader = node;
    node = producer_behind(m, scaled(node), &reader);
  }
  if (!is_plain_matmul(m, node) || node->outputs[0]->type.rank != rank || !take(m, node))
    return false;
  bool transposed = carnot_attr_int(carnot_node_row(node), &node->attrs, "transB") != 0;
  for (int i = 0; i < 2; i++) {  // batches one to one
    if (!is_typed(m, node->inputs[i], rank) || node->inputs[i]->constant) return false;
    for (int d = 0; d + 2 < rank; d++)
      if (!carnot_sym_same(node->inputs[i]->type.dims[d], node->outputs[0]->type.dims[d]))
        return false;
  }
  return take_operand(m, node, 0, /*axis=*/1) &&
         take_operand(m, node, 1, /*axis=*/transposed ? 1 : 2);
}

static bool keeps_elements(const carnot_node* node) {
  const int last = node->inputs[0]->type.rank - 1;
  return node->op == CARNOT_OP_TRANSPOSE && source_axis(node, last) == last;
}

// The only reader of |value|, in its block.
static carnot_node* reader_of(const carnot_value* value) {
  carnot_node* node = carnot_only_user(value);
  return node && node->block == value->block ? node : NULL;
}

// Takes the quantize node that alone reads the |result|, and the cast of 16-bit floats before it.
// Gives the value behind them.
static bool take_quantize(match* m, const carnot_value* result, const carnot_value** out) {
  carnot_node *node = reader_of(result), *cast = NULL;
  if (node && node->op == CARNOT_OP_CAST && carnot_dtype_is_half(m->dtype) &&
      node->outputs[0]->type.dtype == CARNOT_DTYPE_F32) {
    cast = node;
    node = reader_of(cast->outputs[0]);
  }
  const carnot_value* x = cast ? cast->outputs[0] : result;
  if (!node || node->op != CARNOT_OP_QUANTIZE_LINEAR || node->inputs[0] != x ||
      (cast && !take(m, cast)) || !take(m, node))
    return false;
  *out = node->outputs[0];
  return true;
}

// What follows the MatMul of the values: a transpose and a quantize node, in either order. Without
// the latter, what comes before it may still be one region.
static void take_result(match* m, const carnot_value* y) {
  carnot_node* next = reader_of(y);
  const bool turned = next && keeps_elements(next) && take(m, next);
  if (turned) y = next->outputs[0];
  m->float_count = m->count;
  if (!take_quantize(m, y, &y)) {
    m->count = m->float_count;
    return;
  }
  next = reader_of(y);
  if (!turned && next && keeps_elements(next)) take(m, next);
}

static bool take_all(match* m, carnot_node* matmul) {
  if (!is_plain_matmul(m, matmul) ||
      carnot_attr_int(carnot_node_row(matmul), &matmul->attrs, "transB") || !take(m, matmul))
    return false;
  const carnot_node* reader = matmul;
  carnot_node* node = producer_behind(m, matmul->inputs[0], &reader);
  node = behind_mix(m, node, &reader);
  carnot_value* p = guarded(m, node);
  carnot_node* softmax = p ? p->producer : node;
  if (!softmax || softmax->op != CARNOT_OP_SOFTMAX || softmax->block != matmul->block) return false;
  const carnot_value *v = matmul->inputs[1], *y = matmul->outputs[0];
  if (!is_typed(m, v, y->type.rank) || v->constant ||
      softmax->outputs[0]->type.rank != y->type.rank)
    return false;
  for (int d = 0; d + 2 < y->type.rank; d++)
    if (!carnot_sym_same(v->type.dims[d], y->type.dims[d]) ||
        !carnot_sym_same(softmax->outputs[0]->type.dims[d], y->type.dims[d]))
      return false;
  if (!take_scores(m, softmax) || !take_operand(m, matmul, 1, /*axis=*/1)) return false;
  take_result(m, y);
  return true;
}

// The MatMul of softmax's result |p| and the values, behind a guard and conversions.
static carnot_node* values_matmul(const carnot_value* p) {
  for (size_t u = 0; u < p->use_count; u++) {
    carnot_node* reader = p->uses[u].node;
    if (carnot_node_is_fn(reader, CARNOT_FN_SELECT)) reader = carnot_only_user(reader->outputs[0]);
    for (int i = 0; i < 4 && reader && (is_conversion(reader) || reader->op == CARNOT_OP_CAST); i++)
      reader = carnot_only_user(reader->outputs[0]);
    if (reader && reader->op == CARNOT_OP_MIX_HEADS) reader = carnot_only_user(reader->outputs[0]);
    if (reader && reader->op == CARNOT_OP_MATMUL) return reader;
  }
  return NULL;
}

// Between 8-bit integers, by layers that no one asked to compute in another type.
static bool is_integer_match(const match* m, const carnot_node* matmul) {
  return m->is_quantized && m->dtype == CARNOT_DTYPE_F32 && !matmul->precision;
}

static carnot_status* fuse_in(carnot_block* block, const carnot_pass_options* options,
                              bool only_quantized) {
  // Fusing moves nodes, so the matmuls are listed first; a matmul that is gone has no block's
  // reader left.
  size_t count = 0;
  for (carnot_node* node = block->first; node; node = node->next)
    count += node->op == CARNOT_OP_SOFTMAX;
  carnot_node** softmaxes = CARNOT_NEW_ARRAY(&block->graph->arena, carnot_node*, count + 1);
  CARNOT_TRY(carnot_arena_status(&block->graph->arena));
  if (!count) return NULL;
  uint32_t* positions;
  CARNOT_TRY(carnot_block_positions(block, &positions));
  count = 0;
  for (carnot_node* node = block->first; node; node = node->next)
    if (node->op == CARNOT_OP_SOFTMAX) softmaxes[count++] = node;
  for (size_t i = 0; i < count; i++) {
    const carnot_value* p = softmaxes[i]->outputs[0];
    carnot_node* matmul = values_matmul(p);
    match m = {.dtype = p->type.dtype, .is_quantized = matmul && dequantizes(matmul, 1)};
    if (only_quantized && !(matmul && is_integer_match(&m, matmul))) continue;
    bool is_whole = matmul && matmul->block == block && take_all(&m, matmul);
    CARNOT_TRY(m.status);
    if (!is_whole) undo_cuts(&m);
    if (!is_whole) continue;
    if (m.cut_count) CARNOT_TRY(carnot_block_positions(block, &positions));
    carnot_sort_nodes(m.nodes, m.count, positions);
    if (m.count > m.float_count && !carnot_pass_accepts(options, m.nodes, m.count))
      m.count = m.float_count;
    if (carnot_pass_accepts(options, m.nodes, m.count))
      CARNOT_TRY(carnot_fuse(m.nodes, m.count, NULL));
    else
      undo_cuts(&m);
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  return fuse_in(block, user, /*only_quantized=*/false);
}
static carnot_status* visit_quantized(carnot_block* block, void* user) {
  return fuse_in(block, user, /*only_quantized=*/true);
}

carnot_status* carnot_pass_fuse_attention(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);  // what was cut anew, or is read in slices
}

carnot_status* carnot_pass_fuse_quantized_attention(carnot_graph* graph,
                                                    const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit_quantized, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);
}
