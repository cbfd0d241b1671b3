// Complex numbers while importing: a pair of real tensors, as the graph has no complex type.
#ifndef CARNOT_IMPORT_TENSORFLOW_COMPLEX_H_
#define CARNOT_IMPORT_TENSORFLOW_COMPLEX_H_

#include "import/tensorflow/importer.h"

// True for what stands for a complex tensor. Its |type| says nothing; only tf_complex_part and the
// handlers of complex.c take it.
bool tf_is_complex(const carnot_value* value);
// A complex tensor of two real ones of the same shape; NULL after an error.
carnot_value* tf_complex_new(tf_import* n, carnot_value* real, carnot_value* imaginary);
// The real (0) or the imaginary (1) part of a complex tensor; of a real one itself, or zeros.
carnot_value* tf_complex_part(tf_import* n, carnot_value* value, int part);
// The parts along a new last axis of 2, and back.
carnot_value* tf_complex_joined(tf_import* n, carnot_value* value);
carnot_value* tf_complex_split(tf_import* n, carnot_value* pairs);
// The parts along a last axis where they were joined or split before; NULL: not.
carnot_value* tf_complex_pairs(carnot_value* value);
// The type of the parts becomes that of the parts along a last axis of 2.
void tf_complex_pair_type(tf_import* n, carnot_type* type);
// True for the numbers of DataType that are complex64 and complex128.
bool tf_is_complex_type(int64_t dtype);
// The type of their parts.
carnot_dtype tf_complex_part_type(int64_t dtype);
// The handler of a node that has a complex input; where its operator takes none, UNSUPPORTED.
void tf_handle_complex(tf_import* n);

#endif  // CARNOT_IMPORT_TENSORFLOW_COMPLEX_H_
