// Joins the projections of one value into heads (queries, keys, values) into one GEMM: x W + b,
// reshaped to [.., heads, size], for several constant W becomes x [W..] + [b..], reshaped to all
// heads, and a slice for each. Attention kernels read the slices in place. W may be constants that
// are dequantized with one scale a column and cast: then those and their scales are joined. Results
// that are quantized with one scale, as FP8 attention reads them, are quantized as one. The packed
// projection of PyTorch's MultiheadAttention is sliced in the same way.
#include "pass/quantized_region.h"

enum { kMaxSiblings = 8 };

typedef struct projection {
  carnot_node *matmul, *add, *reshape;
  carnot_node* dequantize;  // of the weights; NULL: none
  carnot_node* quantize;    // of the sum, cast or not; NULL: none
  carnot_value* bias;
  int64_t heads, size;
} projection;

static bool is_const_dim(const carnot_value* value, int d, int64_t* out) {
  carnot_sym dim = value->type.dims[d];
  *out = carnot_sym_is_const(dim) ? dim.bits : -1;
  return *out > 0;
}

static bool is_plain(const carnot_node* matmul) {
  const carnot_op_row* row = carnot_node_row(matmul);
  return !carnot_attr_int(row, &matmul->attrs, "transA") &&
         !carnot_attr_int(row, &matmul->attrs, "transB") &&
         carnot_attr_float(row, &matmul->attrs, "alpha") == 1;
}

// Zeros that are known, or nothing.
static bool is_zero(const carnot_value* value) {
  if (!value) return true;
  const carnot_tensor* t = value->constant ? &value->constant->tensor : NULL;
  if (!t || !t->data) return false;
  for (int64_t i = 0; i < carnot_tensor_count(t); i++)
    if (carnot_load_f64(t->dtype, t->data, (size_t)i) != 0) return false;
  return true;
}

// Constant weights, or the cast of constants that are dequantized by column: *out.
static bool read_weights(const carnot_value* w, carnot_node** out) {
  *out = NULL;
  if (w->type.rank != 2 || w->constant) return w->type.rank == 2;
  const carnot_node* cast = w->producer;
  carnot_node* from = cast && cast->op == CARNOT_OP_CAST ? cast->inputs[0]->producer : NULL;
  if (!from || from->op != CARNOT_OP_DEQUANTIZE_LINEAR || from->block != cast->block ||
      !from->inputs[0]->constant || !from->inputs[1]->constant || from->inputs[1]->type.rank != 1 ||
      carnot_attr_int(carnot_node_row(from), &from->attrs, "block_size"))
    return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(from), &from->attrs, "axis");
  *out = from;
  return (axis == 1 || axis == -1) && (from->input_count < 3 || is_zero(from->inputs[2]));
}

// What quantizes |sum|, cast or not, with one constant scale and without a zero point; NULL: none.
static carnot_node* quantize_of(const carnot_value* sum) {
  carnot_node* node = carnot_only_user(sum);
  if (node && node->op == CARNOT_OP_CAST) node = carnot_only_user(node->outputs[0]);
  if (!node || node->op != CARNOT_OP_QUANTIZE_LINEAR || node->block != sum->block ||
      !node->inputs[1]->constant || node->inputs[1]->type.rank != 0 ||
      (node->input_count > 2 && !is_zero(node->inputs[2])))
    return NULL;
  return node;
}

static bool read_projection(carnot_node* matmul, projection* out) {
  const carnot_value *x = matmul->inputs[0], *w = matmul->inputs[1];
  *out = (projection){.matmul = matmul};
  if (matmul->op != CARNOT_OP_MATMUL || !is_plain(matmul) || x->type.rank != 3 ||
      !read_weights(w, &out->dequantize))
    return false;
  out->add = carnot_only_user(matmul->outputs[0]);
  if (!carnot_node_is_fn(out->add, CARNOT_FN_ADD)) return false;
  out->bias = out->add->inputs[out->add->inputs[0] == matmul->outputs[0] ? 1 : 0];
  out->quantize = quantize_of(out->add->outputs[0]);
  out->reshape = carnot_only_user((out->quantize ? out->quantize : out->add)->outputs[0]);
  if (!out->bias->constant || out->bias->type.rank != 1 || !out->reshape ||
      out->reshape->op != CARNOT_OP_RESHAPE || out->reshape->block != matmul->block ||
      out->reshape->outputs[0]->type.rank != 4)
    return false;
  const carnot_value* y = out->reshape->outputs[0];
  int64_t columns, biases;
  return is_const_dim(y, 2, &out->heads) && is_const_dim(y, 3, &out->size) &&
         is_const_dim(w, 1, &columns) && is_const_dim(out->bias, 0, &biases) && columns == biases &&
         columns == out->heads * out->size && carnot_sym_same(y->type.dims[0], x->type.dims[0]) &&
         carnot_sym_same(y->type.dims[1], x->type.dims[1]);
}

static carnot_status* concat(carnot_node* at, carnot_value** parts, int count, int64_t axis,
                             carnot_value** out) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &at->block->graph->arena, "axis", axis);
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_CONCAT, NULL, &attrs, parts, count, 1, &node));
  *out = node->outputs[0];
  return NULL;
}

static carnot_status* slice(carnot_node* at, carnot_value* all, int64_t first, int64_t last,
                            carnot_value** out) {
  const int64_t axis = 2;
  carnot_value* inputs[] = {all, carnot_graph_ints(at->block, &first, 1),
                            carnot_graph_ints(at->block, &last, 1),
                            carnot_graph_ints(at->block, &axis, 1)};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_SLICE, NULL, NULL, inputs, 4, 1, &node));
  *out = node->outputs[0];
  return NULL;
}

// The weights of all as one value.
static carnot_status* join_weights(const projection* all, int count, carnot_value** out) {
  carnot_node *at = all[0].matmul, *like = all[0].dequantize, *node;
  carnot_value *weights[kMaxSiblings], *scales[kMaxSiblings];
  for (int i = 0; i < count; i++) {
    weights[i] = like ? all[i].dequantize->inputs[0] : all[i].matmul->inputs[1];
    if (like) scales[i] = all[i].dequantize->inputs[1];
  }
  CARNOT_TRY(concat(at, weights, count, 1, out));
  if (!like) return NULL;
  carnot_value* inputs[3] = {*out, NULL, NULL};
  CARNOT_TRY(concat(at, scales, count, 0, &inputs[1]));
  CARNOT_TRY(
      carnot_node_insert_before(at, like->op, like->name, &like->attrs, inputs, 2, 1, &node));
  return carnot_insert_cast(at, node->outputs[0], at->inputs[1]->type.dtype, out);
}

// Quantizes |sum| like |like|, before |at|.
static carnot_status* quantize(const carnot_node* like, carnot_node* at, carnot_value* sum,
                               carnot_node** out) {
  carnot_value* inputs[3] = {sum, like->inputs[1], like->input_count > 2 ? like->inputs[2] : NULL};
  const carnot_dtype type = like->inputs[0]->type.dtype;
  if (sum->type.dtype != type) CARNOT_TRY(carnot_insert_cast(at, sum, type, &inputs[0]));
  return carnot_node_insert_before(at, like->op, like->name, &like->attrs, inputs,
                                   like->input_count, 1, out);
}

static carnot_status* join(const projection* all, int count) {
  carnot_node* at = all[0].matmul;
  carnot_value* biases[kMaxSiblings];
  int64_t heads = 0;
  for (int i = 0; i < count; i++) {
    biases[i] = all[i].bias;
    heads += all[i].heads;
  }
  carnot_value* inputs[2] = {at->inputs[0], NULL};
  CARNOT_TRY(join_weights(all, count, &inputs[1]));
  carnot_node* node;
  CARNOT_TRY(
      carnot_node_insert_before(at, CARNOT_OP_MATMUL, at->name, &at->attrs, inputs, 2, 1, &node));
  node->precision = at->precision;
  for (int i = 1; i < count; i++) carnot_node_absorb(node, all[i].matmul);
  inputs[0] = node->outputs[0];
  CARNOT_TRY(concat(at, biases, count, 0, &inputs[1]));
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_BINARY, all[0].add->name, &all[0].add->attrs,
                                       inputs, 2, 1, &node));
  for (int i = 1; i < count; i++) carnot_node_absorb(node, all[i].add);
  if (all[0].quantize) CARNOT_TRY(quantize(all[0].quantize, at, node->outputs[0], &node));
  const int64_t dims[4] = {0, 0, heads, all[0].size};
  inputs[0] = node->outputs[0];
  inputs[1] = carnot_graph_ints(at->block, dims, 4);
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node));
  int64_t first = 0;
  for (int i = 0; i < count; i++) {
    carnot_value* part;
    CARNOT_TRY(slice(at, node->outputs[0], first, first + all[i].heads, &part));
    first += all[i].heads;
    carnot_value_replace(all[i].reshape->outputs[0], part);
  }
  for (int i = 0; i < count; i++) {
    carnot_node* cast = all[i].quantize ? all[i].quantize->inputs[0]->producer : NULL;
    carnot_node_remove(all[i].reshape);
    if (all[i].quantize) carnot_node_remove(all[i].quantize);
    if (cast && cast != all[i].add) carnot_node_remove(cast);
    carnot_node_remove(all[i].add);
    carnot_node_remove(all[i].matmul);
  }
  return NULL;
}

static bool is_half(const carnot_value* value) {
  return value->type.kind == CARNOT_VALUE_TENSOR &&
         (value->type.dtype == CARNOT_DTYPE_F16 || value->type.dtype == CARNOT_DTYPE_BF16);
}

// Their results are quantized alike, or not at all.
static bool has_equal_result(const carnot_pass_options* options, const projection* a,
                             const projection* b) {
  if (!a->quantize || !b->quantize) return a->quantize == b->quantize;
  return a->quantize->outputs[0]->type.dtype == b->quantize->outputs[0]->type.dtype &&
         carnot_same_quantization(options, a->quantize, b->quantize);
}

// The weights are stored alike.
static bool is_alike(const projection* a, const projection* b) {
  if (!a->dequantize || !b->dequantize) return a->dequantize == b->dequantize;
  return a->dequantize->inputs[0]->type.dtype == b->dequantize->inputs[0]->type.dtype;
}

static carnot_status* join_readers(const carnot_pass_options* options, const carnot_value* x) {
  projection all[kMaxSiblings];
  int count = 0;
  for (size_t i = 0; i < x->use_count && count < kMaxSiblings; i++) {
    projection p;
    if (x->uses[i].input != 0 || x->uses[i].node->block != x->block ||
        !read_projection(x->uses[i].node, &p))
      continue;
    // In the order of the block, the first one holds the place.
    if (count && (p.size != all[0].size || p.matmul->precision != all[0].matmul->precision ||
                  !is_alike(&p, &all[0]) || !has_equal_result(options, &p, &all[0])))
      continue;
    all[count++] = p;
  }
  for (int i = 1; i < count; i++)
    for (carnot_node* n = all[0].matmul->previous; n; n = n->previous)
      if (n == all[i].matmul) {
        projection swap = all[0];
        all[0] = all[i], all[i] = swap;
        break;
      }
  return count > 1 ? join(all, count) : NULL;
}

// ---- packed projections: PyTorch's MultiheadAttention ----

// The one projection [S,B,3E] that |squeeze| shows as [3,S,B,E]; NULL where it is another pattern.
static carnot_value* packed_behind(const carnot_node* squeeze) {
  static const int64_t kPerm[] = {3, 1, 2, 0, 4};
  const carnot_node* move = squeeze->op == CARNOT_OP_SQUEEZE ? squeeze->inputs[0]->producer : NULL;
  const carnot_node* wide = carnot_has_perm(move, kPerm, 5) ? move->inputs[0]->producer : NULL;
  const carnot_node* split =
      wide && wide->op == CARNOT_OP_UNSQUEEZE ? wide->inputs[0]->producer : NULL;
  if (!split || split->op != CARNOT_OP_RESHAPE || split->outputs[0]->type.rank != 4 ||
      split->inputs[0]->type.rank != 3 || squeeze->outputs[0]->type.rank != 4)
    return NULL;
  const carnot_value *x = split->inputs[0], *y = split->outputs[0], *z = squeeze->outputs[0];
  bool same = true;
  for (int d = 0; d < 2; d++)
    same = same && carnot_sym_same(x->type.dims[d], y->type.dims[d]) &&
           carnot_sym_same(y->type.dims[d], z->type.dims[d + 1]);
  return same && carnot_sym_same(y->type.dims[3], z->type.dims[3]) ? split->inputs[0] : NULL;
}

// |reshape| joins batch and heads behind a gather: [S,B,E] as [S,B*H,D]; its reader permutes, the
// next splits them again. That is a permutation of |part| [S,B,H,D].
static carnot_status* permute_directly(carnot_node* reshape, carnot_value* part, bool swapped) {
  carnot_node* move = carnot_only_user(reshape->outputs[0]);
  carnot_node* split = move ? carnot_only_user(move->outputs[0]) : NULL;
  size_t count;
  const int64_t* perm = move ? carnot_attr_ints(&move->attrs, "perm", &count) : NULL;
  if (!split || move->op != CARNOT_OP_TRANSPOSE || !perm || count != 3 ||
      split->op != CARNOT_OP_RESHAPE || split->outputs[0]->type.rank != 4)
    return NULL;
  int64_t order[4];
  int rank = 0;
  for (int d = 0; d < 3; d++) {
    if (perm[d] == 1) order[rank++] = swapped ? 0 : 1;
    order[rank++] = perm[d] == 0 ? swapped : perm[d] + 1;
  }
  for (int d = 0; d < 4; d++)
    if (!carnot_sym_same(split->outputs[0]->type.dims[d], part->type.dims[order[d]])) return NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &move->block->graph->arena, "perm", order, 4);
  carnot_node* node;
  CARNOT_TRY(
      carnot_node_insert_before(move, CARNOT_OP_TRANSPOSE, move->name, &attrs, &part, 1, 1, &node));
  carnot_value_replace(split->outputs[0], node->outputs[0]);
  return NULL;
}

static carnot_status* unpack_one(carnot_node* gather, carnot_value* packed, bool swapped) {
  carnot_node* reshape = carnot_only_user(gather->outputs[0]);
  double index;
  int64_t elements, size;
  if (!reshape || reshape->op != CARNOT_OP_RESHAPE || reshape->outputs[0]->type.rank != 3 ||
      !carnot_value_scalar(gather->inputs[1], &index) || index < 0 ||
      !is_const_dim(gather->outputs[0], 2, &elements) ||
      !is_const_dim(reshape->outputs[0], 2, &size) || elements % size != 0)
    return NULL;
  int64_t all, heads = elements / size, first = (int64_t)index * heads;
  if (!is_const_dim(packed, 2, &all) || first + heads > all / size) return NULL;
  const int64_t dims[4] = {0, 0, all / size, size};
  carnot_value *inputs[2] = {packed, carnot_graph_ints(gather->block, dims, 4)}, *part;
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(gather, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node));
  CARNOT_TRY(slice(gather, node->outputs[0], first, first + heads, &part));
  return permute_directly(reshape, part, swapped);
}

// The projection of a transposed value, x as [S,B,..], is made over x itself: |swapped| then.
static carnot_status* batch_first(carnot_node* at, carnot_value** packed, bool* swapped) {
  static const int64_t kPerm[] = {1, 0, 2};
  const carnot_node *add = (*packed)->producer, *matmul = NULL, *move = NULL;
  if (carnot_node_is_fn(add, CARNOT_FN_ADD)) matmul = add->inputs[0]->producer;
  if (matmul && matmul->op == CARNOT_OP_MATMUL && is_plain(matmul) &&
      matmul->inputs[1]->type.rank == 2 && add->inputs[1]->type.rank == 1)
    move = matmul->inputs[0]->producer;
  if (!carnot_has_perm(move, kPerm, 3)) return NULL;
  carnot_value* inputs[2] = {move->inputs[0], matmul->inputs[1]};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_MATMUL, matmul->name, &matmul->attrs, inputs,
                                       2, 1, &node));
  node->precision = matmul->precision;
  inputs[0] = node->outputs[0], inputs[1] = add->inputs[1];
  CARNOT_TRY(
      carnot_node_insert_before(at, CARNOT_OP_BINARY, add->name, &add->attrs, inputs, 2, 1, &node));
  *packed = node->outputs[0];
  *swapped = true;
  return NULL;
}

static carnot_status* unpack(carnot_node* squeeze) {
  carnot_value* packed = packed_behind(squeeze);
  bool swapped = false;
  if (packed) CARNOT_TRY(batch_first(squeeze, &packed, &swapped));
  const carnot_value* all = squeeze->outputs[0];
  for (size_t i = 0; packed && i < all->use_count; i++) {
    carnot_node* gather = all->uses[i].node;
    if (gather->op == CARNOT_OP_GATHER && gather->block == squeeze->block &&
        carnot_attr_int(carnot_node_row(gather), &gather->attrs, "axis") == 0)
      CARNOT_TRY(unpack_one(gather, packed, swapped));
  }
  return NULL;
}

// The heads' results [B,H,S,D] go [S,B,H,D], through one matmul over rows of both, and back to
// [B,S,..]: the matmul does not mind which comes first. What is added to its result can then be
// added in its epilogue.
static carnot_status* keep_batch_first(carnot_node* move) {
  static const int64_t kOut[] = {2, 0, 1, 3}, kBack[] = {1, 0, 2}, kDirect[] = {0, 2, 1, 3};
  carnot_node* rows = carnot_has_perm(move, kOut, 4) ? carnot_only_user(move->outputs[0]) : NULL;
  carnot_node* gemm = rows && rows->op == CARNOT_OP_RESHAPE && rows->outputs[0]->type.rank == 2
                          ? carnot_only_user(rows->outputs[0])
                          : NULL;
  carnot_node* split =
      gemm && gemm->op == CARNOT_OP_GEMM && gemm->inputs[0] == rows->outputs[0] &&
              !carnot_attr_int(carnot_node_row(gemm), &gemm->attrs, "transA") &&
              (gemm->input_count < 3 || !gemm->inputs[2] || gemm->inputs[2]->type.rank == 1)
          ? carnot_only_user(gemm->outputs[0])
          : NULL;
  carnot_node* back = split && split->op == CARNOT_OP_RESHAPE && split->outputs[0]->type.rank == 3
                          ? carnot_only_user(split->outputs[0])
                          : NULL;
  if (!carnot_has_perm(back, kBack, 3)) return NULL;
  const carnot_op_row* row = carnot_node_row(gemm);
  if (carnot_attr_float(row, &gemm->attrs, "alpha") != 1 ||
      carnot_attr_float(row, &gemm->attrs, "beta") != 1)
    return NULL;
  const carnot_type *heads = &move->outputs[0]->type, *y = &back->outputs[0]->type;
  int64_t elements, size, count;
  if (!carnot_sym_is_const(y->dims[1]) || !carnot_sym_same(heads->dims[0], y->dims[1]) ||
      !carnot_sym_same(heads->dims[1], y->dims[0]) ||
      !is_const_dim(rows->outputs[0], 1, &elements) || !is_const_dim(move->outputs[0], 2, &count) ||
      !is_const_dim(move->outputs[0], 3, &size) || elements != count * size ||
      !is_const_dim(back->outputs[0], 2, &size))
    return NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &move->block->graph->arena, "perm", kDirect, 4);
  carnot_node *first, *joined, *last;
  CARNOT_TRY(carnot_node_insert_before(move, CARNOT_OP_TRANSPOSE, move->name, &attrs, move->inputs,
                                       1, 1, &first));
  const int64_t flat[3] = {0, 0, elements};
  carnot_value* inputs[3] = {first->outputs[0], carnot_graph_ints(move->block, flat, 3), NULL};
  CARNOT_TRY(carnot_node_insert_before(move, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &joined));
  carnot_attrs as_product = {0};
  carnot_attrs_set_int(&as_product, &move->block->graph->arena, "transB",
                       carnot_attr_int(carnot_node_row(gemm), &gemm->attrs, "transB"));
  inputs[0] = joined->outputs[0], inputs[1] = gemm->inputs[1];
  CARNOT_TRY(carnot_node_insert_before(gemm, CARNOT_OP_MATMUL, gemm->name, &as_product, inputs, 2,
                                       1, &last));
  last->precision = gemm->precision;
  if (gemm->input_count > 2 && gemm->inputs[2]) {
    carnot_attrs sum = {0};
    carnot_attrs_set_int(&sum, &move->block->graph->arena, "fn", CARNOT_FN_ADD);
    inputs[0] = last->outputs[0], inputs[1] = gemm->inputs[2];
    CARNOT_TRY(carnot_node_insert_before(gemm, CARNOT_OP_BINARY, NULL, &sum, inputs, 2, 1, &last));
  }
  carnot_value_replace(back->outputs[0], last->outputs[0]);
  return NULL;
}

// What attention computes in: half precision on a device, float32 on the CPU.
static bool has_attention_type(const carnot_pass_options* options, const carnot_value* value) {
  if (options->device) return is_half(value);
  return value->type.kind == CARNOT_VALUE_TENSOR && value->type.dtype == CARNOT_DTYPE_F32;
}

// On the CPU one GEMM pays where it multiplies BF16.
static carnot_status* join_readers_of(const carnot_pass_options* options, carnot_value* value) {
  if (!options->device && options->half != CARNOT_DTYPE_BF16) return NULL;
  return has_attention_type(options, value) ? join_readers(options, value) : NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (size_t i = 0; i < block->param_count; i++)
    CARNOT_TRY(join_readers_of(options, block->params[i]));
  // The node itself stays; those behind it may go.
  for (carnot_node* node = block->first; node; node = node->next) {
    if (node->op == CARNOT_OP_SQUEEZE && has_attention_type(options, node->outputs[0]))
      CARNOT_TRY(unpack(node));
    if (node->op == CARNOT_OP_TRANSPOSE && has_attention_type(options, node->outputs[0]))
      CARNOT_TRY(keep_batch_first(node));
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) CARNOT_TRY(join_readers_of(options, node->outputs[i]));
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_qkv_projections(carnot_graph* graph,
                                                const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)options));
  return carnot_pass_dce(graph, options);
}
