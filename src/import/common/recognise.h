// What a file is that was given as a model and is none.
#ifndef CARNOT_IMPORT_COMMON_RECOGNISE_H_
#define CARNOT_IMPORT_COMMON_RECOGNISE_H_

#include <stdbool.h>
#include <stddef.h>

// "a zip archive as torch.save writes it: ..." with what to do, for files that begin as no ONNX
// model does; NULL for all others.
const char* import_recognise(const void* data, size_t size);

// True when |data| is text that opens a layer of Caffe.
bool import_is_caffe(const void* data, size_t size);

// True when the bytes begin as a GraphDef of TensorFlow does: a node with a name and an operator.
bool import_is_graph_def(const void* data, size_t size);

#endif  // CARNOT_IMPORT_COMMON_RECOGNISE_H_
