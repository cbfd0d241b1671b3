// Memory layouts of network inputs and outputs: how the tensor that the user sees becomes a dense
// row-major tensor of other dimensions, which steps reformat. {N, C, H, W} as HWC8 is row-major
// {N, H, W, ceil(C / 8) * 8}, as CHW4 {N, ceil(C / 4), H, W, 4}.
#ifndef CARNOT_PLAN_IO_FORMAT_H_
#define CARNOT_PLAN_IO_FORMAT_H_

#include "ir/tensor.h"

typedef enum carnot_io_kind {
  CARNOT_IO_LINEAR,
  CARNOT_IO_LAST,     // channels are the dense dimension, padded to a multiple of |block|
  CARNOT_IO_BLOCKED,  // channels are in blocks of |block|, which are the dense dimension
  CARNOT_IO_DLA       // not available
} carnot_io_kind;

typedef struct carnot_io_format {
  carnot_io_kind kind;
  int block;    // channels of a block
  int spatial;  // dimensions behind the channels
} carnot_io_format;

// The parts of a format in [0, CARNOT_TENSOR_FORMAT_COUNT).
carnot_io_format carnot_io_format_of(carnot_tensor_format format);
// The dimension that holds the channels of a tensor of |rank|.
static inline int carnot_io_channel(const carnot_io_format* f, int rank) {
  return rank - 1 - f->spatial;
}
// INVALID_ARGUMENT, with |name| of the tensor, when it cannot have |format|: other values, types
// under 8 bits and text, too few dimensions, |channels| (the extent of that dimension) below 0.
// |dims| may be NULL: all but the channels are checked.
carnot_status* carnot_io_format_check(carnot_tensor_format format, const char* name,
                                      carnot_dtype dtype, int rank,
                                      const int64_t* dims) CARNOT_MUST_USE;
// Dimensions of the row-major tensor in memory for those the user sees; -1 stays -1. The format was
// checked. Returns their number.
int carnot_io_stored_dims(carnot_tensor_format format, int rank, const int64_t* dims,
                          int64_t* out_dims);

// The way back: |declared| are the dimensions of the tensor in the plan, which holds the channels
// of padded formats. False when |stored| is no tensor of this format.
bool carnot_io_shown_dims(carnot_tensor_format format, int rank, const int64_t* declared,
                          int stored_rank, const int64_t* stored, int64_t* out_dims);

#endif  // CARNOT_PLAN_IO_FORMAT_H_
