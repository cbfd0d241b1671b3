// Folds a crop into the transposed convolution before it:
//   slice(conv_transpose(x)) -> conv_transpose(x) with the widths taken away added to its padding
// Exporters of frameworks that pad a transposed convolution on all sides alike write the crop
// apart.
#include "ops/sliding_window.h"
#include "pass/pass.h"

enum { kPixels = CARNOT_SLIDING_WINDOW_RANK };

typedef struct widths {
  int64_t begin[kPixels], end[kPixels];
} widths;

// What a slice from |start| to |end| by ones takes away of |size| elements at both ends.
static bool read_axis(carnot_sym size, int64_t start, int64_t end, int64_t* begin,
                      int64_t* behind) {
  if (carnot_sym_is_const(size)) {
    if (start < 0) start += size.bits;
    if (end < 0) end += size.bits;
    end = carnot_min_i64(end, size.bits);
    *begin = start, *behind = size.bits - end;
    return start >= 0 && start < end;
  }
  *begin = start, *behind = end < 0 ? -end : 0;
  return start >= 0 && (end < 0 || end >= INT32_MAX);
}

static bool read_crop(const carnot_node* node, widths* out) {
  int64_t lists[4][CARNOT_MAX_RANK];  // starts, ends, axes, steps
  const carnot_value* x = node->inputs[0];
  if (node->op != CARNOT_OP_SLICE || node->input_count < 4 || !carnot_is_ranked(x)) return false;
  const int count = carnot_value_ints(node->inputs[1], lists[0], CARNOT_MAX_RANK);
  for (int i = 1; i < 4; i++) {
    const bool given = i + 1 < node->input_count && node->inputs[i + 1];
    if (i == 3 && !given)
      for (int a = 0; a < count; a++) lists[3][a] = 1;
    else if (!given || carnot_value_ints(node->inputs[i + 1], lists[i], CARNOT_MAX_RANK) != count)
      return false;
  }
  *out = (widths){0};
  for (int i = 0; i < count; i++) {
    const int axis = (int)(lists[2][i] < 0 ? lists[2][i] + x->type.rank : lists[2][i]);
    if (axis < 2 || axis >= x->type.rank || lists[3][i] != 1 ||
        !read_axis(x->type.dims[axis], lists[0][i], lists[1][i], &out->begin[axis - 2],
                   &out->end[axis - 2]))
      return false;
  }
  return count > 0;
}

// The padding of |conv| as it is; false where it follows from sizes that are open.
static bool read_padding(const carnot_node* conv, carnot_sliding_window* w) {
  const carnot_type *x = &conv->inputs[0]->type, *y = &conv->outputs[0]->type;
  if (!carnot_is_ranked(conv->inputs[0]) || !carnot_is_ranked(conv->inputs[1])) return false;
  carnot_status* status = carnot_sliding_window_read(carnot_node_row(conv), &conv->attrs,
                                                     x->rank - 2, &conv->inputs[1]->type, w);
  carnot_status_free(status);  // infer has read the same
  const bool same = w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER;
  if (status) return false;
  if (!same && !carnot_attr_has(&conv->attrs, "output_shape")) return true;
  size_t count;
  const int64_t* extra = carnot_attr_ints(&conv->attrs, "output_padding", &count);
  for (int i = 0; i < w->rank; i++) {
    const carnot_sym in = x->dims[2 + i], size = y->dims[2 + i];
    if (!carnot_sym_is_const(in) || !carnot_sym_is_const(size)) return false;
    carnot_sliding_window_resolve_transposed(w, i, in.bits, size.bits,
                                             extra && count ? extra[i] : 0);
  }
  return true;
}

static carnot_status* fold(carnot_node* conv, carnot_node* crop, const carnot_sliding_window* w) {
  carnot_arena* arena = &conv->block->graph->arena;
  int64_t pads[2 * kPixels];
  for (int i = 0; i < w->rank; i++) pads[i] = w->begin[i], pads[w->rank + i] = w->end[i];
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < conv->attrs.count; i++)
    if (strcmp(conv->attrs.items[i].name, "output_shape") != 0)
      carnot_attrs_set(&attrs, arena, conv->attrs.items[i]);
  carnot_attrs_set_text(&attrs, arena, "auto_pad", "NOTSET");
  carnot_attrs_set_ints(&attrs, arena, "pads", pads, (size_t)(2 * w->rank));
  conv->attrs = attrs;
  carnot_value_replace(crop->outputs[0], conv->outputs[0]);
  carnot_node_absorb(conv, crop);
  carnot_node_remove(crop);
  return carnot_node_infer(conv);
}

// False where the padding would drop input pixels (wider than the kernel's reach), which kernels
// reject, or would be negative.
static bool add(carnot_sliding_window* w, const widths* crop) {
  for (int i = 0; i < w->rank; i++) {
    const int64_t reach = (w->kernel[i] - 1) * w->dilations[i];
    w->begin[i] += crop->begin[i];
    w->end[i] += crop->end[i];
    if (w->begin[i] > reach || w->end[i] > reach || w->end[i] < 0) return false;
  }
  return true;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    if (node->op != CARNOT_OP_CONV_TRANSPOSE) continue;
    carnot_node* crop = carnot_only_user(node->outputs[0]);
    carnot_sliding_window window;
    widths cropped;
    if (crop && crop->block == block && read_crop(crop, &cropped) && read_padding(node, &window) &&
        add(&window, &cropped))
      CARNOT_TRY(fold(node, crop, &window));
  }
  return NULL;
}

carnot_status* carnot_pass_fold_crops(carnot_graph* graph, const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
