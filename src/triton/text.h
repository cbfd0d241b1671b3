// Tensors of text in Triton's form: each element has its length in 4 bytes, little-endian, before
// it. Any thread.
#ifndef CARNOT_TRITON_TEXT_H_
#define CARNOT_TRITON_TEXT_H_

#include "carnot/data.h"

// Reads the elements of a tensor of |dims| from |data| [size], which the value borrows.
// INVALID_ARGUMENT where there are more or fewer, or one ends past the data.
carnot_status* carnot_triton_text_read(const carnot_dims* dims, const char* data, size_t size,
                                       carnot_data** out_value) CARNOT_MUST_USE;

// Bytes that elements [first, first + count) of |value| take.
size_t carnot_triton_text_bytes(const carnot_data* value, size_t first, size_t count);
// Writes them to |data|, which has room for them.
void carnot_triton_text_write(const carnot_data* value, size_t first, size_t count, char* data);

#endif  // CARNOT_TRITON_TEXT_H_
