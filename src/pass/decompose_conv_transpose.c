// Transposed convolution -> convolution, shuffle and crop, for an accelerator, whose convolution
// kernels then compute it with their epilogues:
//   y[s·m + a - begin] = sum over t of x[m - t] · w[s·t + a]
// All s phases a of an axis are channels of one convolution by ceil(kernel / s) taps; the shuffle
// puts them beside one another, and the crop takes |begin| away. Nothing is computed twice, and
// nothing but the taps by which s does not divide the kernel is added. Activations and other unary
// nodes behind it move before the shuffle.
#include "ops/sliding_window.h"
#include "pass/emit.h"

typedef struct plan_axis {
  int64_t kernel, stride;
  int64_t taps;    // of the convolution
  int64_t pad[2];  // of the convolution
  int64_t crop,
      kept;  // of the shuffled axis: elements away at the begin, and at the end (negative)
} plan_axis;

typedef struct rewrite {
  carnot_emitter e;
  carnot_node* node;
  int rank;                         // of the pixels
  int64_t groups, in, out, phases;  // in, out: channels of a group
  plan_axis axes[CARNOT_SLIDING_WINDOW_RANK];
} rewrite;

static int64_t extra_of(const carnot_node* node, int axis) {
  size_t count;
  const int64_t* values = carnot_attr_ints(&node->attrs, "output_padding", &count);
  return values && (size_t)axis < count ? values[axis] : 0;
}

// False where the padding follows from sizes that are not known, or cuts more than the kernel adds.
static bool plan(const carnot_sliding_window* w, int axis, int64_t extra, plan_axis* out) {
  const int64_t k = w->kernel[axis], s = w->strides[axis];
  *out = (plan_axis){.kernel = k, .stride = s, .taps = (k + s - 1) / s};
  int64_t begin = w->begin[axis], end = w->end[axis];
  if (w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER) {
    const int64_t total = carnot_max_i64(0, k + extra - s);
    begin = w->auto_pad == CARNOT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    end = k - s - begin;
    extra = 0;
  }
  // Elements behind the result among the s * (pixels + taps - 1) of the shuffle; below zero where
  // it needs more of them.
  int64_t surplus = s * out->taps - k - extra + end;
  const int64_t more = surplus < 0 ? (-surplus + s - 1) / s : 0;
  surplus += more * s;
  const int64_t before = begin / s, behind = surplus / s;
  out->pad[0] = out->taps - 1 - before;
  out->pad[1] = out->taps - 1 + more - behind;
  out->crop = begin % s;
  out->kept = surplus % s ? -(surplus % s) : INT64_MAX;
  return begin >= 0 && out->pad[0] >= 0 && out->pad[1] >= 0;
}

static bool is_dense_float(const carnot_value* value) {
  return carnot_is_ranked(value) && carnot_dtype_is_float(value->type.dtype);
}

static bool read(carnot_node* node, rewrite* out) {
  const carnot_value *x = node->inputs[0], *w = node->inputs[1];
  if (!is_dense_float(x) || !is_dense_float(w) || !w->constant || x->type.rank != w->type.rank ||
      node->output_count != 1 || carnot_attr_has(&node->attrs, "output_shape"))
    return false;
  *out = (rewrite){.e = {.at = node, .name = node->name}, .node = node, .rank = x->type.rank - 2};
  const carnot_op_row* row = carnot_node_row(node);
  carnot_sliding_window window;
  carnot_status* status =
      carnot_sliding_window_read(row, &node->attrs, out->rank, &w->type, &window);
  carnot_status_free(status);  // infer has read the same
  if (status || out->rank < 1 || out->rank > 3) return false;
  out->groups = carnot_attr_int(row, &node->attrs, "group");
  out->in = w->type.dims[0].bits / out->groups;
  out->out = w->type.dims[1].bits;
  out->phases = 1;
  for (int i = 0; i < out->rank; i++) {
    if (window.dilations[i] != 1 || !window.kernel[i] ||
        !plan(&window, i, extra_of(node, i), &out->axes[i]))
      return false;
    out->phases *= out->axes[i].stride;
  }
  // Groups and all axes in two are axes of one transpose.
  return out->in > 0 && out->out > 0 && 2 + (out->groups > 1) + 2 * out->rank <= CARNOT_MAX_RANK;
}

// [in, out, K..] of each group -> [phases.. , out, in, taps..], taps in reversed order.
static carnot_value* weights(rewrite* r) {
  int64_t pads[2 * CARNOT_MAX_RANK] = {0}, dims[2 * CARNOT_MAX_RANK], perm[2 * CARNOT_MAX_RANK];
  const int rank = r->rank, grouped = r->groups > 1;
  carnot_value* w = r->node->inputs[1];
  bool padded = false;
  for (int i = 0; i < rank; i++) {
    const plan_axis* a = &r->axes[i];
    pads[rank + 2 + 2 + i] = a->taps * a->stride - a->kernel;
    padded |= a->taps * a->stride != a->kernel;
  }
  if (padded) {
    carnot_value* inputs[2] = {w, carnot_emit_ints(&r->e, pads, 2 * (rank + 2))};
    w = carnot_emit(&r->e, CARNOT_OP_PAD, NULL, inputs, 2);
  }
  int n = 0;
  if (grouped) dims[n++] = r->groups;
  dims[n++] = r->in, dims[n++] = r->out;
  for (int i = 0; i < rank; i++) dims[n++] = r->axes[i].taps, dims[n++] = r->axes[i].stride;
  w = carnot_emit_reshape(&r->e, w, dims, n);
  int to = 0;
  if (grouped) perm[to++] = 0;
  for (int i = 0; i < rank; i++) perm[to++] = grouped + 2 + 2 * i + 1;
  perm[to++] = grouped + 1, perm[to++] = grouped;
  for (int i = 0; i < rank; i++) perm[to++] = grouped + 2 + 2 * i;
  w = carnot_emit_transpose(&r->e, w, perm, n);
  int64_t result[CARNOT_MAX_RANK] = {r->groups * r->phases * r->out, r->in};
  for (int i = 0; i < rank; i++) result[2 + i] = r->axes[i].taps;
  w = carnot_emit_reshape(&r->e, w, result, 2 + rank);
  for (int i = 0; i < rank; i++)
    if (r->axes[i].taps > 1) w = carnot_emit_reversed(&r->e, w, 2 + i);
  return w;
}

// The bias of each phase.
static carnot_value* bias(rewrite* r) {
  carnot_value* b = r->node->input_count > 2 ? r->node->inputs[2] : NULL;
  if (!b) return NULL;
  const int64_t dims[3] = {r->groups, 1, r->out}, all[3] = {r->groups, r->phases, r->out},
                flat = r->groups * r->phases * r->out;
  carnot_value* inputs[2] = {carnot_emit_reshape(&r->e, b, dims, 3),
                             carnot_emit_ints(&r->e, all, 3)};
  return carnot_emit_reshape(&r->e, carnot_emit(&r->e, CARNOT_OP_EXPAND, NULL, inputs, 2), &flat,
                             1);
}

static carnot_value* convolve(rewrite* r) {
  carnot_arena* arena = &r->node->block->graph->arena;
  int64_t pads[2 * CARNOT_SLIDING_WINDOW_RANK];
  for (int i = 0; i < r->rank; i++)
    pads[i] = r->axes[i].pad[0], pads[r->rank + i] = r->axes[i].pad[1];
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, arena, "group", r->groups);
  carnot_attrs_set_ints(&attrs, arena, "pads", pads, (size_t)(2 * r->rank));
  carnot_value* inputs[3] = {r->node->inputs[0], weights(r), bias(r)};
  return carnot_emit(&r->e, CARNOT_OP_CONV, &attrs, inputs, inputs[2] ? 3 : 2);
}

// [N, group, phases.., out, M..] -> [N, group, out, M, phase, ..] -> pixels.
static carnot_value* shuffle_axes(rewrite* r, carnot_value* y) {
  int64_t dims[CARNOT_MAX_RANK] = {0}, perm[CARNOT_MAX_RANK], pixels[CARNOT_MAX_RANK];
  const int rank = r->rank, grouped = r->groups > 1, first = 1 + grouped;
  int n = 1, to = 0;  // dimension 0 of a reshape: as it is
  if (grouped) dims[n++] = r->groups;
  for (int i = 0; i < rank; i++) dims[n++] = r->axes[i].stride;
  dims[n++] = r->out;
  for (int i = 0; i < rank; i++) {
    const carnot_sym dim = y->type.dims[2 + i];
    dims[n++] = dim.bits;
    pixels[2 + i] = dim.bits * r->axes[i].stride;
  }
  perm[to++] = 0;
  if (grouped) perm[to++] = 1;
  perm[to++] = first + rank;
  for (int i = 0; i < rank; i++) perm[to++] = first + rank + 1 + i, perm[to++] = first + i;
  y = carnot_emit_transpose(&r->e, carnot_emit_reshape(&r->e, y, dims, n), perm, n);
  pixels[0] = 0, pixels[1] = r->groups * r->out;
  return carnot_emit_reshape(&r->e, y, pixels, 2 + rank);
}

static bool is_block(const rewrite* r) {
  return r->rank == 2 && r->groups == 1 && r->axes[0].stride == r->axes[1].stride;
}

static carnot_value* shuffle(rewrite* r, carnot_value* y) {
  if (r->phases == 1 || !y) return y;
  if (!is_block(r)) return shuffle_axes(r, y);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &r->node->block->graph->arena, "blocksize", r->axes[0].stride);
  return carnot_emit(&r->e, CARNOT_OP_DEPTH_TO_SPACE, &attrs, &y, 1);
}

static carnot_value* crop(rewrite* r, carnot_value* y) {
  int64_t starts[3], ends[3], axes[3], steps[3];
  int count = 0;
  for (int i = 0; i < r->rank; i++) {
    const plan_axis* a = &r->axes[i];
    if (!a->crop && a->kept == INT64_MAX) continue;
    starts[count] = a->crop, ends[count] = a->kept, axes[count] = 2 + i, steps[count++] = 1;
  }
  if (!count) return y;
  carnot_value* inputs[5] = {
      y, carnot_emit_ints(&r->e, starts, count), carnot_emit_ints(&r->e, ends, count),
      carnot_emit_ints(&r->e, axes, count), carnot_emit_ints(&r->e, steps, count)};
  return carnot_emit(&r->e, CARNOT_OP_SLICE, NULL, inputs, 5);
}

// The unary node that alone reads |value|.
static carnot_node* unary_behind(const carnot_value* value) {
  carnot_node* node = carnot_only_user(value);
  bool fits = node && node->block == value->block && node->op == CARNOT_OP_UNARY &&
              node->outputs[0]->type.dtype == value->type.dtype;
  return fits ? node : NULL;
}

static bool sizes_are_known(const rewrite* r) {
  const carnot_type* x = &r->node->inputs[0]->type;
  for (int i = 0; i < r->rank; i++)
    if (!carnot_sym_is_const(x->dims[2 + i])) return false;
  return true;
}

static carnot_status* rewrite_node(rewrite* r) {
  carnot_value* y = convolve(r);
  carnot_node *last = r->node, *next;
  while (y && (next = unary_behind(last->outputs[0])) != NULL) {
    y = carnot_emit(&r->e, CARNOT_OP_UNARY, &next->attrs, &y, 1);
    last = next;
  }
  y = crop(r, shuffle(r, y));
  CARNOT_TRY(r->e.status);
  if (!y || !carnot_same_dims(&y->type, &last->outputs[0]->type)) return NULL;
  carnot_value_replace(last->outputs[0], y);
  carnot_node_absorb(y->producer, r->node);
  for (carnot_node* node = last; node != r->node;) {
    carnot_node* before = node->inputs[0]->producer;
    carnot_node_absorb(y->producer, node);
    carnot_node_remove(node);
    node = before;
  }
  carnot_node_remove(r->node);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    rewrite r;
    if (node->op != CARNOT_OP_CONV_TRANSPOSE || !read(node, &r) ||
        (!is_block(&r) && !sizes_are_known(&r)))
      continue;
    // Unary nodes behind it go with it.
    while (next && next->op == CARNOT_OP_UNARY) next = next->next;
    CARNOT_TRY(rewrite_node(&r));
  }
  return NULL;
}

// What was begun and could not be ended is dead.
carnot_status* carnot_pass_decompose_conv_transpose(carnot_graph* graph,
                                                    const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
