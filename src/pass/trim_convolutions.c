// Leaves out the outer taps of convolutions that read nothing but padding, as those of filters with
// a large dilation over a small image do:
//   conv(x, W) pads=24 dilations=24 over 16 x 16 -> conv(x, W at the centre)
// The sizes of the image must be known. The arithmetic on weights is nodes over constants.
#include "ops/sliding_window.h"
#include "pass/emit.h"

enum { kPixels = CARNOT_SLIDING_WINDOW_RANK };

// Taps [begin, end) of each axis that are left.
typedef struct taps {
  int64_t begin[kPixels], end[kPixels];
} taps;

// Whether a tap that is |offset| from the first pixel reads an element for any of |out| outputs.
static bool reads(int64_t offset, int64_t stride, int64_t in, int64_t out) {
  for (int64_t i = 0; i < out && offset + i * stride < in; i++)
    if (offset + i * stride >= 0) return true;
  return false;
}

// False where every tap is needed. One tap stays, and padding does not become negative.
static bool find_taps(const carnot_sliding_window* w, const carnot_type* x, const carnot_type* y,
                      taps* out) {
  bool any = false;
  for (int d = 0; d < w->rank; d++) {
    const carnot_sym in = x->dims[2 + d], count = y->dims[2 + d];
    out->begin[d] = 0, out->end[d] = w->kernel[d];
    if (!carnot_sym_is_const(in) || !carnot_sym_is_const(count)) continue;
    const int64_t stride = w->strides[d], dilation = w->dilations[d];
    while (out->end[d] - out->begin[d] > 1 && w->begin[d] >= (out->begin[d] + 1) * dilation &&
           !reads(out->begin[d] * dilation - w->begin[d], stride, in.bits, count.bits))
      out->begin[d]++;
    while (out->end[d] - out->begin[d] > 1 &&
           w->end[d] >= (w->kernel[d] - out->end[d] + 1) * dilation &&
           !reads((out->end[d] - 1) * dilation - w->begin[d], stride, in.bits, count.bits))
      out->end[d]--;
    any = any || out->end[d] - out->begin[d] < w->kernel[d];
  }
  return any;
}

static carnot_status* trim(carnot_node* conv, const carnot_sliding_window* w, const taps* left) {
  carnot_emitter e = {.at = conv, .name = conv->name};
  carnot_arena* arena = &conv->block->graph->arena;
  carnot_value* weights = conv->inputs[1];
  int64_t pads[2 * kPixels], kernel[kPixels];
  for (int d = 0; d < w->rank; d++) {
    kernel[d] = left->end[d] - left->begin[d];
    pads[d] = w->begin[d] - left->begin[d] * w->dilations[d];
    pads[w->rank + d] = w->end[d] - (w->kernel[d] - left->end[d]) * w->dilations[d];
    if (kernel[d] < w->kernel[d])
      weights = carnot_emit_slice(&e, weights, 2 + d, left->begin[d], left->end[d]);
  }
  if (e.status) return e.status;
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < conv->attrs.count; i++)
    carnot_attrs_set(&attrs, arena, conv->attrs.items[i]);
  carnot_attrs_set_ints(&attrs, arena, "kernel_shape", kernel, (size_t)w->rank);
  carnot_attrs_set_ints(&attrs, arena, "pads", pads, (size_t)(2 * w->rank));
  conv->attrs = attrs;
  carnot_node_set_input(conv, 1, weights);
  return carnot_node_infer(conv);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    if (node->op != CARNOT_OP_CONV || !node->inputs[1]->constant ||
        !carnot_is_ranked(node->inputs[0]))
      continue;
    carnot_sliding_window w;
    taps left;
    CARNOT_TRY(carnot_sliding_window_read(carnot_node_row(node), &node->attrs,
                                          node->inputs[0]->type.rank - 2, &node->inputs[1]->type,
                                          &w));
    if (w.auto_pad == CARNOT_PAD_NOTSET &&
        find_taps(&w, &node->inputs[0]->type, &node->outputs[0]->type, &left))
      CARNOT_TRY(trim(node, &w, &left));
  }
  return NULL;
}

carnot_status* carnot_pass_trim_convolutions(carnot_graph* graph,
                                             const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
