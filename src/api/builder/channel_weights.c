// Weights of the channels of a tensor by the layers that read it.
#include "api/builder/channel_weights.h"

#include <math.h>
#include <stdlib.h>

#include "carnot/data.h"
#include "pass/pass.h"

// Networks in half precision compute in FP32 here.
static double weight(const carnot_tensor* w, size_t i) {
  return w->dtype == CARNOT_DTYPE_F32 ? (double)((const float*)w->data)[i]
                                      : carnot_element_f64(w->dtype, w->data, i);
}

// Adds the squared norm of the weights that |node| multiplies each channel of its input with.
static void add_norms(const carnot_node* node, double* norms, size_t channels) {
  const carnot_tensor* w = &node->inputs[1]->constant->tensor;
  const carnot_op_row* row = carnot_node_row(node);
  int64_t count = carnot_tensor_count(w), inner = 1, groups = 1, of = 1;
  if (node->op == CARNOT_OP_CONV) {
    groups = carnot_attr_int(row, &node->attrs, "group");
    for (int d = 2; d < w->rank; d++) inner *= w->dims[d];
    of = w->dims[1];
  } else if (node->op != CARNOT_OP_CONV_TRANSPOSE) {
    bool transposed = carnot_attr_int(row, &node->attrs, "transB") != 0;
    inner = transposed ? 1 : w->dims[1];
    of = (int64_t)channels;
  } else {
    inner = count / carnot_max_i64(w->dims[0], 1);
    of = (int64_t)channels;
  }
  if (!count || of * groups != (int64_t)channels || count % (groups * of * inner)) return;
  for (int64_t i = 0; i < count; i++) {
    int64_t group = node->op == CARNOT_OP_CONV ? i / (count / groups) : 0;
    double value = weight(w, (size_t)i);
    norms[group * of + i / inner % of] += value * value;
  }
}

// The axis of |node|'s input that its weights have channels for.
static int input_channel_axis(const carnot_node* node) {
  bool windowed = node->op == CARNOT_OP_CONV || node->op == CARNOT_OP_CONV_TRANSPOSE;
  return windowed ? 1 : node->inputs[0]->type.rank - 1;
}

static bool reads_in_8_bits(const carnot_use* use) {
  return use->input == 0 && carnot_takes_qdq_in_f32(use->node) && use->node->inputs[1]->constant;
}

// The axis of the channels for every such reader, and their number; -1: there is not one.
static int find_channels(const carnot_value* value, int64_t* out_count) {
  int axis = -1;
  *out_count = 0;
  for (size_t u = 0; u < value->use_count; u++) {
    if (!reads_in_8_bits(&value->uses[u])) continue;
    int found = carnot_is_ranked(value) ? input_channel_axis(value->uses[u].node) : -1;
    if (found < 0 || found >= value->type.rank || (axis >= 0 && axis != found)) return -1;
    axis = found;
  }
  if (axis < 0 || !carnot_sym_is_const(value->type.dims[axis])) return -1;
  *out_count = value->type.dims[axis].bits;
  return axis;
}

carnot_status* carnot_weigh_channels(const carnot_value* value, carnot_channel_weights* out,
                                     int* out_axis) {
  int64_t channels;
  *out = (carnot_channel_weights){.count = 0};
  *out_axis = find_channels(value, &channels);
  if (channels < 2) return NULL;
  void *memory, *weights;
  CARNOT_TRY(carnot_calloc((size_t)channels, sizeof(double), "channels", &memory));
  double *norms = memory, most = 0;
  for (size_t u = 0; u < value->use_count; u++)
    if (reads_in_8_bits(&value->uses[u])) add_norms(value->uses[u].node, norms, (size_t)channels);
  for (int64_t c = 0; c < channels; c++) most = fmax(most, norms[c]);
  carnot_status* status = NULL;
  if (most > 0) status = carnot_calloc((size_t)channels, sizeof(uint32_t), "channels", &weights);
  if (!status && most > 0) {
    for (int64_t c = 0; c < channels; c++)
      ((uint32_t*)weights)[c] = (uint32_t)nearbyint(norms[c] / most * 65536);
    *out = (carnot_channel_weights){.weights = weights, .count = (size_t)channels};
  }
  free(memory);
  return status;
}

// ---- readers ----

// The weights of |node| as [outputs, inputs, kernel]; false where their layout is another.
static bool describe(const carnot_node* node, size_t channels, carnot_equalize_reader* out) {
  const carnot_tensor* w = &node->inputs[1]->constant->tensor;
  const int64_t* dims = w->dims;
  *out = (carnot_equalize_reader){.groups = 1, .kernel = 1};
  if (node->op == CARNOT_OP_CONV_TRANSPOSE || !w->data || carnot_tensor_count(w) == 0) return false;
  const carnot_op_row* row = carnot_node_row(node);
  const bool is_conv = node->op == CARNOT_OP_CONV;
  const bool by_rows = is_conv || carnot_attr_int(row, &node->attrs, "transB");
  if (is_conv) out->groups = (size_t)carnot_attr_int(row, &node->attrs, "group");
  out->outputs = (size_t)dims[by_rows ? 0 : 1];
  out->inputs = (size_t)dims[by_rows ? 1 : 0];
  for (int d = 2; d < w->rank; d++) out->kernel *= (size_t)dims[d];
  return out->inputs * out->groups == channels && out->outputs % out->groups == 0;
}

static void find_largest(const carnot_node* node, carnot_equalize_reader* reader) {
  const carnot_tensor* w = &node->inputs[1]->constant->tensor;
  const bool by_columns =
      node->op != CARNOT_OP_CONV && !carnot_attr_int(carnot_node_row(node), &node->attrs, "transB");
  for (size_t o = 0; o < reader->outputs; o++)
    for (size_t i = 0; i < reader->inputs; i++) {
      const size_t at =
          by_columns ? i * reader->outputs + o : (o * reader->inputs + i) * reader->kernel;
      double most = 0;
      for (size_t k = 0; k < reader->kernel; k++) most = fmax(most, fabs(weight(w, at + k)));
      reader->largest[o * reader->inputs + i] = (float)most;
    }
}

carnot_status* carnot_channel_readers_init(const carnot_value* value, size_t channels,
                                           carnot_channel_readers* out) {
  void *items, *norms;
  *out = (carnot_channel_readers){.count = 0};
  CARNOT_TRY(carnot_calloc(value->use_count + 1, sizeof(carnot_equalize_reader), "layers", &items));
  out->items = items;
  CARNOT_TRY(carnot_calloc(channels + 1, sizeof(double), "channels", &norms));
  out->norms = norms;
  for (size_t u = 0; u < value->use_count; u++) {
    const carnot_node* node = value->uses[u].node;
    carnot_equalize_reader reader;
    if (!reads_in_8_bits(&value->uses[u])) continue;
    if (!describe(node, channels, &reader)) {
      carnot_channel_readers_deinit(out);
      return NULL;
    }
    void* largest;
    CARNOT_TRY(carnot_calloc(reader.outputs * reader.inputs, sizeof(float), "weights", &largest));
    reader.largest = largest;
    out->items[out->count++] = reader;
    find_largest(node, &out->items[out->count - 1]);
    add_norms(node, out->norms, channels);
  }
  return NULL;
}

void carnot_channel_readers_deinit(carnot_channel_readers* readers) {
  for (size_t i = 0; i < readers->count; i++) free(readers->items[i].largest);
  free(readers->items);
  free(readers->norms);
  *readers = (carnot_channel_readers){.count = 0};
}
