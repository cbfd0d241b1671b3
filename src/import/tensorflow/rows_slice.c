// Slices: Slice, StridedSlice with its masks, Split. Source: tensorflow/core/ops/array_ops.cc,
// tensorflow/core/util/strided_slice_op.cc.
#include "import/tensorflow/rows.h"

// ---- Slice and Split ----

// x[begin : begin + size], size -1: to the end.
static void handle_slice(tf_import* n) {
  size_t begin_count = 0, size_count = 0;
  int64_t starts[CARNOT_MAX_RANK], ends[CARNOT_MAX_RANK], axes[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, n->inputs[0]);
  const int64_t* begin = tf_constant_ints(n, 1, &begin_count);
  const int64_t* size = tf_constant_ints(n, 2, &size_count);
  for (int i = 0; i < rank; i++) axes[i] = i;
  carnot_value *from, *to;
  if (begin && size && begin_count == (size_t)rank && size_count == (size_t)rank) {
    for (int i = 0; i < rank; i++) {
      starts[i] = begin[i];
      if (size[i] < 0 || !carnot_add_i64(begin[i], size[i], &ends[i])) ends[i] = INT64_MAX;
    }
    from = import_ints(&n->node, starts, (size_t)rank);
    to = import_ints(&n->node, ends, (size_t)rank);
  } else {
    from = tf_int64(n, n->inputs[1]);
    carnot_value* length = tf_int64(n, n->inputs[2]);
    carnot_value* open = import_binary(&n->node, CARNOT_FN_LESS, length, import_int(&n->node, 0));
    to = import_ternary(&n->node, CARNOT_FN_SELECT, open, import_int(&n->node, INT64_MAX),
                        import_binary(&n->node, CARNOT_FN_ADD, from, length));
  }
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, n->inputs[0], from, to,
                            import_ints(&n->node, axes, (size_t)rank));
}

static void split(tf_import* n, carnot_value* x, carnot_value* sizes, int64_t axis, int64_t parts) {
  carnot_attrs attrs = {0};
  carnot_value* inputs[2] = {x, sizes};
  if (parts < 1 || parts > TF_MOST_OUTPUTS)
    TF_FAIL(n, UNSUPPORTED, "%lld parts; 1 to %d are supported", (long long)parts, TF_MOST_OUTPUTS);
  if (n->node.status) return;
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis);
  if (!sizes) carnot_attrs_set_int(&attrs, n->node.arena, "num_outputs", parts);
  n->output_count = (int)parts;
  import_emit(&n->node, CARNOT_OP_SPLIT, &attrs, inputs, 2, n->outputs, (int)parts);
}
static void handle_split(tf_import* n) {
  const int64_t axis = tf_need_int(n, 0, "the axis");
  split(n, n->inputs[1], NULL, axis, tf_int(n, "num_split", 1));
}
// One of the sizes may be -1: what is left.
static void handle_split_v(tf_import* n) {
  size_t count = 0;
  const int64_t axis = tf_need_int(n, 2, "the axis");
  const int64_t* sizes = tf_need_ints(n, 1, "the sizes", &count);
  const int rank = import_rank(&n->node, n->inputs[0]);
  if (count > TF_MOST_OUTPUTS)
    TF_FAIL(n, UNSUPPORTED, "%zu parts; at most %d are supported", count, TF_MOST_OUTPUTS);
  if (n->node.status) return;
  int64_t known[TF_MOST_OUTPUTS], sum = 0;
  int open = -1;
  for (size_t i = 0; i < count; i++) {
    known[i] = sizes[i];
    if (sizes[i] < 0)
      open = (int)i;
    else
      sum += sizes[i];
  }
  const int64_t whole = import_dim(n->inputs[0], import_axis(&n->node, axis, rank));
  if (open >= 0 && whole < 0) {
    // Parts before the open one count from the beginning, those behind it from the end.
    int64_t at = 0, left = 0;
    for (size_t i = (size_t)open + 1; i < count; i++) left += known[i];
    for (size_t i = 0; i < count; i++) {
      const bool before = i < (size_t)open, is_open = i == (size_t)open;
      const int64_t start = before || is_open ? at : -left;
      if (!before && !is_open) left -= known[i];
      const int64_t end = before ? at + known[i] : left ? -left : INT64_MAX;
      n->outputs[i] = import_slice(&n->node, n->inputs[0], axis, start, end);
      if (before) at += known[i];
    }
    n->output_count = (int)count;
    return;
  }
  if (open >= 0) known[open] = whole - sum;
  split(n, n->inputs[0], import_ints(&n->node, known, count), axis, (int64_t)count);
}
// Each part loses the axis.
static void handle_unpack(tf_import* n) {
  const int64_t axis = tf_int(n, "axis", 0), parts = tf_int(n, "num", 0);
  if (parts == 0) {
    n->output_count = 0;
    return;
  }
  split(n, n->inputs[0], NULL, axis, parts);
  for (int i = 0; i < n->output_count && !n->node.status; i++)
    n->outputs[i] = import_squeeze(&n->node, n->outputs[i], &axis, 1);
}

// ---- StridedSlice ----

typedef struct slicing {
  int rank;      // of the operand
  size_t count;  // of entries
  int64_t begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask;
  int64_t axes[CARNOT_MAX_RANK];  // that are sliced, and the entry of each
  int entries[CARNOT_MAX_RANK];
  int sliced;
  int64_t shrunk[CARNOT_MAX_RANK], inserted[2 * CARNOT_MAX_RANK];
  int shrunk_count, inserted_count;
} slicing;

static bool has(int64_t mask, size_t entry) { return entry < 63 && (mask >> entry & 1); }

// What each entry of the lists is about: an axis, a new axis, or all that are left (the ellipsis).
static bool read_entries(tf_import* n, slicing* s) {
  size_t taken = 0;  // entries that stand for an axis
  bool seen = false;
  for (size_t i = 0; i < s->count; i++) {
    const bool ellipsis = has(s->ellipsis_mask, i) && !seen;
    seen |= ellipsis;
    taken += !ellipsis && !has(s->new_mask, i);
  }
  if (taken > (size_t)s->rank || s->count > 2 * CARNOT_MAX_RANK) {
    TF_FAIL(n, INVALID_MODEL, "%zu entries for %d dimensions", taken, s->rank);
    return false;
  }
  int axis = 0, out = 0;  // of the operand, and of the result before axes are taken away
  seen = false;
  int result_rank = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (has(s->ellipsis_mask, i) && !seen) {
      seen = true;
      axis += s->rank - (int)taken, out += s->rank - (int)taken;
      result_rank += s->rank - (int)taken;
    } else if (has(s->new_mask, i)) {
      // Its number is the one in the result, where shrunk axes are gone.
      s->inserted[s->inserted_count++] = result_rank++;
    } else {
      if (has(s->shrink_mask, i))
        s->shrunk[s->shrunk_count++] = axis;
      else
        result_rank++;
      s->axes[s->sliced] = axis++;
      s->entries[s->sliced++] = (int)i;
    }
  }
  return true;
}

// The entries of a list for the sliced axes, as int64.
static carnot_value* entries_of(tf_import* n, const slicing* s, int input) {
  int64_t picks[CARNOT_MAX_RANK];
  for (int i = 0; i < s->sliced; i++) picks[i] = s->entries[i];
  return import_gather(&n->node, tf_int64(n, n->inputs[input]),
                       import_ints(&n->node, picks, (size_t)s->sliced), 0);
}

typedef struct slice_lists {
  carnot_value *begin, *end, *strides;
} slice_lists;

// From constants where they are, with open ends by the sign of the stride.
static slice_lists make_lists(tf_import* n, const slicing* s) {
  size_t counts[3];
  int64_t begin[CARNOT_MAX_RANK], end[CARNOT_MAX_RANK], step[CARNOT_MAX_RANK];
  bool begin_open[CARNOT_MAX_RANK], end_open[CARNOT_MAX_RANK], any_begin = false, any_end = false;
  const int64_t *b = tf_constant_ints(n, 1, &counts[0]), *e = tf_constant_ints(n, 2, &counts[1]),
                *d = tf_need_ints(n, 3, "the strides", &counts[2]);
  if (n->node.status || counts[2] != s->count) return (slice_lists){NULL, NULL, NULL};
  for (int i = 0; i < s->sliced; i++) {
    const int k = s->entries[i];
    const bool shrink = has(s->shrink_mask, (size_t)k);
    step[i] = shrink ? 1 : d[k];
    begin_open[i] = !shrink && has(s->begin_mask, (size_t)k);
    end_open[i] = !shrink && has(s->end_mask, (size_t)k);
    begin[i] = begin_open[i]                ? (step[i] < 0 ? INT64_MAX : 0)
               : b && counts[0] > (size_t)k ? b[k]
                                            : 0;
    end[i] = end_open[i]                  ? (step[i] < 0 ? INT64_MIN : INT64_MAX)
             : e && counts[1] > (size_t)k ? e[k]
                                          : 0;
    if (shrink) end[i] = begin[i] == -1 ? INT64_MAX : begin[i] + 1;
    any_begin |= !begin_open[i];
    any_end |= !end_open[i] && !shrink;
    if (step[i] == 0) TF_FAIL(n, INVALID_MODEL, "a stride is 0");
  }
  const size_t count = (size_t)s->sliced;
  slice_lists l = {import_ints(&n->node, begin, count), import_ints(&n->node, end, count),
                   import_ints(&n->node, step, count)};
  if ((b || !any_begin) && (e || !any_end)) return l;
  // Computed in the run: the masks choose between the lists.
  unsigned char* open = CARNOT_NEW_ARRAY(n->node.arena, unsigned char, 3 * count + 1);
  if (!import_has_memory(&n->node)) return l;
  for (size_t i = 0; i < count; i++) {
    open[i] = begin_open[i];
    open[count + i] = end_open[i];
    open[2 * count + i] = has(s->shrink_mask, (size_t)s->entries[i]);
  }
  carnot_value* masks[3];
  for (int i = 0; i < 3; i++) {
    const carnot_tensor t = {.dtype = CARNOT_DTYPE_BOOL,
                             .rank = 1,
                             .dims = {s->sliced},
                             .data = open + (size_t)i * count};
    masks[i] = import_tensor_constant(&n->node, &t);
  }
  carnot_value *first = entries_of(n, s, 1), *last = entries_of(n, s, 2);
  l.begin = import_ternary(&n->node, CARNOT_FN_SELECT, masks[0], l.begin, first);
  carnot_value* next = import_binary(&n->node, CARNOT_FN_ADD, l.begin, import_int(&n->node, 1));
  carnot_value* is_last =
      import_binary(&n->node, CARNOT_FN_EQUAL, l.begin, import_int(&n->node, -1));
  next = import_ternary(&n->node, CARNOT_FN_SELECT, is_last, import_int(&n->node, INT64_MAX), next);
  last = import_ternary(&n->node, CARNOT_FN_SELECT, masks[1], l.end, last);
  l.end = import_ternary(&n->node, CARNOT_FN_SELECT, masks[2], next, last);
  return l;
}

static void handle_strided_slice(tf_import* n) {
  slicing s = {.rank = import_rank(&n->node, n->inputs[0]),
               .begin_mask = tf_int(n, "begin_mask", 0),
               .end_mask = tf_int(n, "end_mask", 0),
               .ellipsis_mask = tf_int(n, "ellipsis_mask", 0),
               .new_mask = tf_int(n, "new_axis_mask", 0),
               .shrink_mask = tf_int(n, "shrink_axis_mask", 0)};
  (void)tf_need_ints(n, 3, "the strides", &s.count);
  if (n->node.status || !read_entries(n, &s)) return;
  carnot_value* y = n->inputs[0];
  if (s.sliced) {
    const slice_lists l = make_lists(n, &s);
    y = import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, y, l.begin, l.end,
                  import_ints(&n->node, s.axes, (size_t)s.sliced), l.strides);
  }
  if (s.shrunk_count) y = import_squeeze(&n->node, y, s.shrunk, s.shrunk_count);
  if (s.inserted_count) y = import_unsqueeze(&n->node, y, s.inserted, s.inserted_count);
  n->outputs[0] = y;
}

static const tf_row kRows[] = {
    {"Slice", handle_slice, 3, 3, 0, NULL, NULL},
    {"Split", handle_split, 2, 2, 0, NULL, NULL},
    {"SplitV", handle_split_v, 3, 3, 0, NULL, NULL},
    {"Unpack", handle_unpack, 1, 1, 0, NULL, NULL},
    {"StridedSlice", handle_strided_slice, 4, 4, 0, NULL, NULL},
};
const tf_row_table tf_rows_slice = TF_ROW_TABLE(kRows);
