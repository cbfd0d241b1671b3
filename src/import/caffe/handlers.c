// The table of layers, and what their handlers share.
#include "import/caffe/handlers.h"

static const caffe_row_table* const kTables[] = {
    &caffe_rows_window,   &caffe_rows_matrix, &caffe_rows_norm,      &caffe_rows_pointwise,
    &caffe_rows_movement, &caffe_rows_reduce, &caffe_rows_recurrent, &caffe_rows_detection,
    &caffe_rows_resample, &caffe_rows_region,
};

const caffe_row* caffe_row_find(carnot_strview type) {
  for (size_t t = 0; t < sizeof(kTables) / sizeof(kTables[0]); t++)
    for (size_t i = 0; i < kTables[t]->count; i++)
      if (carnot_view_is(type, kTables[t]->rows[i].type)) return &kTables[t]->rows[i];
  return NULL;
}

const caffe_row* caffe_row_at(size_t index) {
  for (size_t t = 0; t < sizeof(kTables) / sizeof(kTables[0]); t++) {
    if (index < kTables[t]->count) return &kTables[t]->rows[index];
    index -= kTables[t]->count;
  }
  return NULL;
}

int64_t caffe_dim(caffe_import* n, int i, int axis) {
  const int64_t dim = i < n->input_count ? import_dim(n->inputs[i], axis) : -1;
  if (dim >= 0) return dim;
  CAFFE_FAIL(n, UNSUPPORTED, "dimension %d of bottom %d must be known", axis, i);
  return 1;
}

int caffe_rank(caffe_import* n, int i, int least, int most) {
  const int rank = import_rank(&n->node, n->inputs[i]);
  if (!n->node.status && (rank < least || rank > most))
    CAFFE_FAIL(n, INVALID_MODEL, "bottom %d has %d dimensions; %d to %d are required", i, rank,
               least, most);
  return n->node.status ? least : rank;
}

int caffe_axis_of(caffe_import* n, const char* name, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    CAFFE_FAIL(n, INVALID_MODEL, "%s is %lld; %d to %d are required", name, (long long)axis, -rank,
               rank - 1);
    return 0;
  }
  return (int)(axis < 0 ? axis + rank : axis);
}

int caffe_axis(caffe_import* n, const char* name, int64_t absent) {
  return caffe_axis_of(n, name, caffe_int(n->fields, name, absent),
                       import_rank(&n->node, n->inputs[0]));
}

int64_t caffe_positive(caffe_import* n, const char* name, int64_t most) {
  const int64_t value = caffe_int(n->fields, name, 0);
  if (value >= 1 && value <= most) return value;
  CAFFE_FAIL(n, INVALID_MODEL, "%s is %lld; 1 to %lld are required", name, (long long)value,
             (long long)most);
  return 1;
}

carnot_value* caffe_align(caffe_import* n, carnot_value* x, int axis, int rank) {
  int64_t axes[CARNOT_MAX_RANK];
  const int own = import_rank(&n->node, x), behind = rank - axis - own;
  if (n->node.status) return NULL;
  if (behind < 0) {
    CAFFE_FAIL(n, INVALID_MODEL, "%d dimensions from axis %d on; %d are there", own, axis,
               rank - axis);
    return NULL;
  }
  for (int i = 0; i < behind; i++) axes[i] = own + i;
  return behind ? import_unsqueeze(&n->node, x, axes, behind) : x;
}

carnot_value* caffe_reduce_to(caffe_import* n, const char* fn, carnot_value* x, int first) {
  int64_t axes[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, x);
  for (int i = first; i < rank; i++) axes[i - first] = i;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", fn);
  carnot_attrs_set_int(&attrs, n->node.arena, "keepdims", 0);
  if (first >= rank) return x;
  return import_op(&n->node, CARNOT_OP_REDUCE, &attrs, 2, x,
                   import_ints(&n->node, axes, (size_t)(rank - first)));
}
