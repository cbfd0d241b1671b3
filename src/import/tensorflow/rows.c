// Finds the row of an operator.
#include "import/tensorflow/rows.h"

static const tf_row_table* const kTables[] = {
    &tf_rows_control,    &tf_rows_control_v1, &tf_rows_conv,     &tf_rows_detection,
    &tf_rows_list,       &tf_rows_matmul,     &tf_rows_movement, &tf_rows_norm,
    &tf_rows_pointwise,  &tf_rows_quantize,   &tf_rows_reduce,   &tf_rows_resample,
    &tf_rows_segment,    &tf_rows_shape,      &tf_rows_slice,    &tf_rows_variables,
    &tf_rows_cell,       &tf_rows_complex,    &tf_rows_special,  &tf_rows_bits,
    &tf_rows_projective, &tf_rows_ctc,        &tf_rows_patches,  &tf_rows_color,
    &tf_rows_linalg,     &tf_rows_text,       &tf_rows_random,   &tf_rows_gather,
    &tf_rows_space,      &tf_rows_table,      &tf_rows_diagonal, &tf_rows_numeric,
    &tf_rows_partition,  &tf_rows_pool,       &tf_rows_search,   &tf_rows_cudnn_rnn};

const tf_row* tf_row_at(size_t index) {
  for (size_t t = 0; t < sizeof(kTables) / sizeof(kTables[0]); t++) {
    if (index < kTables[t]->count) return &kTables[t]->rows[index];
    index -= kTables[t]->count;
  }
  return NULL;
}

const tf_row* tf_row_find(carnot_strview op) {
  for (size_t t = 0; t < sizeof(kTables) / sizeof(kTables[0]); t++)
    for (size_t i = 0; i < kTables[t]->count; i++)
      if (carnot_view_is(op, kTables[t]->rows[i].op)) return &kTables[t]->rows[i];
  return NULL;
}
