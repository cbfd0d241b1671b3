// Reading Caffe networks into graphs.
//
// Accepted: networks as text of the new form (layer) and the old one (layers), weights as
// caffemodel of either, and of NVCaffe. A network is read as Caffe's phase TEST has it. Source:
// caffe.proto and the layers of BVLC/caffe; of SSD, NVCaffe and others what docs list.
#ifndef CARNOT_IMPORT_CAFFE_CAFFE_H_
#define CARNOT_IMPORT_CAFFE_CAFFE_H_

#include "carnot/caffe.h"
#include "import/common/name_map.h"
#include "import/common/source.h"
#include "ir/graph.h"

// A text or weights, at a path or in memory (|path| NULL). Memory must outlive the graph.
typedef struct carnot_caffe_file {
  const char* path;
  const void* data;
  size_t size;
} carnot_caffe_file;

// Reads |deploy| with the weights in |model| (NULL: seeded random ones) into |graph|. Adds names of
// blobs with their values to |blobs|, whose arena the caller sets. *out_source is what the graph
// borrows from, set after an error too when something was read. INVALID_MODEL where a file breaks
// its format or a layer's parameters do not fit; UNSUPPORTED with a line for every layer that
// Carnot does not know. |options| may be NULL.
carnot_status* carnot_caffe_import(const carnot_caffe_file* deploy, const carnot_caffe_file* model,
                                   const carnot_caffe_options* options, carnot_graph* graph,
                                   import_name_map* blobs,
                                   carnot_model_source** out_source) CARNOT_MUST_USE;

// The tensor of a BlobProto message (a mean image as .binaryproto), in |arena|.
carnot_status* carnot_caffe_read_blob_message(const void* data, size_t size, carnot_arena* arena,
                                              carnot_tensor* out_tensor) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_CAFFE_CAFFE_H_
