// The tables of operators by family.
#ifndef CARNOT_IMPORT_TENSORFLOW_ROWS_H_
#define CARNOT_IMPORT_TENSORFLOW_ROWS_H_

#include "import/tensorflow/importer.h"

extern const tf_row_table tf_rows_control, tf_rows_control_v1, tf_rows_conv, tf_rows_detection,
    tf_rows_list, tf_rows_matmul, tf_rows_movement, tf_rows_norm, tf_rows_pointwise,
    tf_rows_quantize, tf_rows_reduce, tf_rows_resample, tf_rows_segment, tf_rows_shape,
    tf_rows_slice, tf_rows_variables;

#endif  // CARNOT_IMPORT_TENSORFLOW_ROWS_H_
