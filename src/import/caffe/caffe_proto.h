// Caffe's protobuf messages: networks as text (prototxt) and weights in wire form (caffemodel).
//
// The text form gives the layers and their parameters, the wire form only names and blobs: forks of
// Caffe give one field number to different parameters, while the names in texts are clear.
#ifndef CARNOT_IMPORT_CAFFE_CAFFE_PROTO_H_
#define CARNOT_IMPORT_CAFFE_CAFFE_PROTO_H_

#include "import/pb/pb.h"

typedef CARNOT_PB_LIST(int64_t) caffe_int_list;
typedef CARNOT_PB_LIST(float) caffe_float_list;
typedef CARNOT_PB_LIST(carnot_strview) caffe_text_list;

typedef struct caffe_shape {
  uint64_t present;
  caffe_int_list dim;
} caffe_shape;
typedef CARNOT_PB_LIST(caffe_shape) caffe_shape_list;

// What NVCaffe's raw_data holds.
enum { CAFFE_RAW_DOUBLE, CAFFE_RAW_FLOAT, CAFFE_RAW_HALF };

typedef struct caffe_blob {
  uint64_t present;
  caffe_shape* shape;  // NULL: num, channels, height and width
  int64_t num, channels, height, width;
  carnot_strview data, double_data;  // packed
  int64_t raw_data_type;
  carnot_strview raw_data;
} caffe_blob;
typedef CARNOT_PB_LIST(caffe_blob) caffe_blob_list;

typedef struct caffe_filler {
  uint64_t present;
  carnot_strview type;
  float value;
} caffe_filler;

// NetStateRule: which phases, levels and stages a layer is for.
typedef struct caffe_rule {
  uint64_t present;
  int64_t phase, min_level, max_level;
  caffe_text_list stage, not_stage;
} caffe_rule;
enum { CAFFE_RULE_HAS_PHASE = 1, CAFFE_RULE_HAS_MIN_LEVEL = 2, CAFFE_RULE_HAS_MAX_LEVEL = 4 };
typedef CARNOT_PB_LIST(caffe_rule) caffe_rule_list;

typedef struct caffe_params caffe_params;
typedef struct caffe_layer caffe_layer;

enum { CAFFE_MOST_PARAMS = 64 };

// LayerParameter and V1LayerParameter.
struct caffe_layer {
  uint64_t present[2];
  carnot_strview name, type;
  int64_t v1_type;  // of V1LayerParameter
  caffe_text_list bottom, top;
  caffe_rule_list include, exclude;
  caffe_blob_list blobs;
  caffe_layer* v0;                          // of the oldest form
  carnot_pb_unknown_list unknown;           // fields of forks, as text
  caffe_params* params[CAFFE_MOST_PARAMS];  // by caffe_params_find
};
typedef CARNOT_PB_LIST(caffe_layer) caffe_layer_list;

typedef struct caffe_state {
  uint64_t present;
  int64_t phase, level;
  caffe_text_list stage;
} caffe_state;

typedef struct caffe_net {
  uint64_t present;
  carnot_strview name;
  caffe_text_list input;
  caffe_shape_list input_shape;
  caffe_int_list input_dim;
  caffe_state* state;
  caffe_layer_list layer, layers;  // new form, old form
} caffe_net;

extern const carnot_pb_message carnot_caffe_net_text;  // prototxt, into caffe_net
extern const carnot_pb_message carnot_caffe_net_wire;  // caffemodel, into caffe_net: names, blobs
extern const carnot_pb_message carnot_caffe_blob_wire;

// A layer's parameters by the names of their fields; an absent message has no field.
typedef struct caffe_fields {
  const caffe_params* params;  // NULL: absent
  const carnot_pb_message* message;
} caffe_fields;

// The message |name| ("pooling_param") of a layer.
caffe_fields caffe_fields_of(const caffe_layer* layer, const char* name);
// The message |name| within another.
caffe_fields caffe_fields_in(caffe_fields f, const char* name);

// A field's value, or |absent|. |name| is one of the message's.
bool caffe_has(caffe_fields f, const char* name);
int64_t caffe_int(caffe_fields f, const char* name, int64_t absent);
double caffe_float(caffe_fields f, const char* name, double absent);
// A list; an empty one where absent.
caffe_int_list caffe_ints(caffe_fields f, const char* name);
caffe_float_list caffe_floats(caffe_fields f, const char* name);
caffe_shape_list caffe_shapes(caffe_fields f);
// The values that constant fillers say, one for each top; an error's text where one is of another
// type.
const char* caffe_filler_value(caffe_fields f, size_t i, float* out_value);

#endif  // CARNOT_IMPORT_CAFFE_CAFFE_PROTO_H_
