// The inside of the Caffe importer: what the handlers of layers see and call. Names here start with
// caffe_.
#ifndef CARNOT_IMPORT_CAFFE_IMPORTER_H_
#define CARNOT_IMPORT_CAFFE_IMPORTER_H_

#include "import/caffe/caffe.h"
#include "import/caffe/caffe_proto.h"
#include "import/common/emit.h"

typedef struct caffe_import caffe_import;

// How a layer is imported.
typedef struct caffe_row {
  const char* type;
  void (*handler)(caffe_import* n);
  const char* params;               // name of its parameter message; NULL: none
  int least_bottoms, most_bottoms;  // most -1: any number
  carnot_fn fn;                     // for handlers that serve many layers
  const char* note;                 // for docs: what is not supported; NULL: nothing
} caffe_row;

typedef struct caffe_row_table {
  const caffe_row* rows;
  size_t count;
} caffe_row_table;

#define CAFFE_ROW_TABLE(rows) \
  { rows, sizeof(rows) / sizeof((rows)[0]) }

// The row, or NULL.
const caffe_row* caffe_row_find(carnot_strview type);

// Row |index| of all tables; NULL past the last.
const caffe_row* caffe_row_at(size_t index);

typedef struct caffe_importer {
  import_state state;  // first
  carnot_caffe_options options;
  const caffe_net* net;
  size_t random_bytes;            // of weights made so far
  const caffe_net* weights;       // NULL: random
  import_name_map weight_layers;  // by name to caffe_layer*
  carnot_model_source* source;
  import_name_map* blobs;   // by name to carnot_value*
  import_name_map dropped;  // blobs of layers that are for training: by name to caffe_layer*
  import_name_map makers;   // of blobs: by name to the caffe_layer* that made each first
} caffe_importer;

// One layer being imported.
struct caffe_import {
  import_node node;  // first: what nodes are emitted with
  caffe_importer* importer;
  const caffe_layer* layer;
  const caffe_row* row;
  caffe_fields fields;           // of row->params
  const caffe_blob_list* blobs;  // NULL: random weights
  int input_count;
  carnot_value** inputs;
  int output_count;
  carnot_value** outputs;  // set by the handler, all of them
};

#define CAFFE_FAIL(n, ...) IMPORT_FAIL(&(n)->node, __VA_ARGS__)

// Blob |i| of the layer's weights as a constant of these dimensions; the count of elements must be
// theirs, and its own dimensions too but for leading ones of 1. Without weights random values
// around 0 (|fan_in| of the sums that they go into; 0: ones).
carnot_value* caffe_weights(caffe_import* n, size_t i, const int64_t* dims, int rank,
                            int64_t fan_in);
// Blob |i|, which is there, as a constant of the dimensions that it has.
carnot_value* caffe_blob_constant(caffe_import* n, size_t i);
// An error where the layer has another number of blobs.
void caffe_expect_blobs(caffe_import* n, size_t count);
// True with weights that hold blob |i|.
bool caffe_has_blob(const caffe_import* n, size_t i);

// A constant of floats, copied.
carnot_value* caffe_floats_constant(caffe_import* n, const float* values, const int64_t* dims,
                                    int rank);

// ---- blobs (blobs.c) ----

// Elements of |blob| as float tensor of its dimensions: a view of the file where it can be.
carnot_status* caffe_blob_read(const caffe_blob* blob, import_files* files, carnot_arena* arena,
                               carnot_tensor* out_tensor) CARNOT_MUST_USE;

// ---- old forms (upgrade.c) ----

// The layers of |net| in the new form: types as text. INVALID_MODEL for V0 and for a mix.
carnot_status* caffe_upgrade(caffe_net* net) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_CAFFE_IMPORTER_H_
