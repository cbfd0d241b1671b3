// Reduction, shapes, movement, positions.
#include "api/builder/network.h"

carnot_status* carnot_network_add_reduce(carnot_network* network, carnot_value* input,
                                         carnot_reduction type, const int64_t* axes, int axis_count,
                                         bool keep_dims, carnot_value** out_value) {
  *out_value = NULL;
  static const char* const kFns[] = {"sum", "prod", "max", "min", "mean"};
  const char* fn;
  CARNOT_PICK(kFns, type, "reduction", fn);
  CARNOT_CHECK(axes || axis_count == 0, INVALID_ARGUMENT, "a reduction over %d axes that are NULL",
               axis_count);
  carnot_attrs attrs = {0};
  CARNOT_SET_TEXT(attrs, network, "fn", fn);
  CARNOT_SET_INT(attrs, network, "keepdims", keep_dims);
  return carnot_network_add_one(
      network, CARNOT_OP_REDUCE, &attrs,
      CARNOT_VALUES(input, axis_count ? carnot_network_ints(network, axes, axis_count) : NULL),
      out_value);
}

carnot_status* carnot_network_add_topk(carnot_network* network, carnot_value* input,
                                       carnot_value* k, int axis, bool largest,
                                       carnot_value** out_values, carnot_value** out_indices) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", axis);
  CARNOT_SET_INT(attrs, network, "largest", largest);
  carnot_node* node;
  CARNOT_TRY(
      carnot_network_add(network, CARNOT_OP_TOP_K, &attrs, CARNOT_VALUES(input, k), 2, &node));
  if (out_values) *out_values = node->outputs[0];
  if (out_indices) *out_indices = node->outputs[1];
  return NULL;
}

carnot_status* carnot_network_add_cumulative(carnot_network* network, carnot_value* input, int axis,
                                             bool exclusive, bool reverse,
                                             carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "exclusive", exclusive);
  CARNOT_SET_INT(attrs, network, "reverse", reverse);
  const int64_t at = axis;
  return carnot_network_add_one(network, CARNOT_OP_CUMULATIVE, &attrs,
                                CARNOT_VALUES(input, carnot_network_ints(network, &at, -1)),
                                out_value);
}

carnot_status* carnot_network_add_shape(carnot_network* network, carnot_value* input,
                                        carnot_value** out_value) {
  return carnot_network_add_one(network, CARNOT_OP_SHAPE, NULL, CARNOT_VALUES(input), out_value);
}

static carnot_status* add_transpose(carnot_network* network, carnot_value* input,
                                    const int64_t* order, carnot_value** out_value) {
  CARNOT_CHECK(input && input->type.rank >= 0, INVALID_ARGUMENT, "a transpose of unknown rank");
  carnot_attrs attrs = {0};
  CARNOT_SET_INTS(attrs, network, "perm", order, input->type.rank);
  return carnot_network_add_one(network, CARNOT_OP_TRANSPOSE, &attrs, CARNOT_VALUES(input),
                                out_value);
}

carnot_status* carnot_network_add_shuffle(carnot_network* network, carnot_value* input,
                                          const int64_t* first, carnot_value* dims,
                                          const int64_t* second, carnot_value** out_value) {
  *out_value = NULL;
  carnot_value* value = input;
  if (first) CARNOT_TRY(add_transpose(network, value, first, &value));
  if (dims)
    CARNOT_TRY(carnot_network_add_one(network, CARNOT_OP_RESHAPE, NULL, CARNOT_VALUES(value, dims),
                                      &value));
  if (second) CARNOT_TRY(add_transpose(network, value, second, &value));
  if (value == input) return carnot_network_add_identity(network, input, out_value);
  *out_value = value;
  return NULL;
}

carnot_status* carnot_network_add_squeeze(carnot_network* network, carnot_value* input,
                                          const int64_t* axes, int axis_count,
                                          carnot_value** out_value) {
  return carnot_network_add_one(
      network, CARNOT_OP_SQUEEZE, NULL,
      CARNOT_VALUES(input, axis_count ? carnot_network_ints(network, axes, axis_count) : NULL),
      out_value);
}

carnot_status* carnot_network_add_unsqueeze(carnot_network* network, carnot_value* input,
                                            const int64_t* axes, int axis_count,
                                            carnot_value** out_value) {
  return carnot_network_add_one(
      network, CARNOT_OP_UNSQUEEZE, NULL,
      CARNOT_VALUES(input, carnot_network_ints(network, axes, axis_count)), out_value);
}

carnot_status* carnot_network_add_concatenation(carnot_network* network,
                                                carnot_value* const* inputs, int count, int axis,
                                                carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", axis);
  return carnot_network_add_one(network, CARNOT_OP_CONCAT, &attrs, inputs, count, out_value);
}

carnot_status* carnot_network_add_slice(carnot_network* network, carnot_value* input,
                                        const int64_t* start, const int64_t* size,
                                        const int64_t* stride, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(input && input->type.rank >= 0, INVALID_ARGUMENT, "a slice of unknown rank");
  int rank = input->type.rank;
  int64_t end[CARNOT_MAX_RANK], axes[CARNOT_MAX_RANK];
  for (int d = 0; d < rank; d++) {
    int64_t span;
    CARNOT_CHECK(start[d] >= 0 && size[d] >= 0 && stride[d] != 0 &&
                     !__builtin_mul_overflow(size[d], stride[d], &span) &&
                     !__builtin_add_overflow(start[d], span, &end[d]),
                 INVALID_ARGUMENT, "slice of dimension %d: start %lld, size %lld, stride %lld", d,
                 (long long)start[d], (long long)size[d], (long long)stride[d]);
    // Before the first element: as far back as there is.
    if (end[d] < 0) end[d] = INT64_MIN;
    axes[d] = d;
  }
  return carnot_network_add_slice_dynamic(network, input, carnot_network_ints(network, start, rank),
                                          carnot_network_ints(network, end, rank),
                                          carnot_network_ints(network, axes, rank),
                                          carnot_network_ints(network, stride, rank), out_value);
}

carnot_status* carnot_network_add_slice_dynamic(carnot_network* network, carnot_value* input,
                                                carnot_value* starts, carnot_value* ends,
                                                carnot_value* axes, carnot_value* steps,
                                                carnot_value** out_value) {
  return carnot_network_add_one(network, CARNOT_OP_SLICE, NULL,
                                CARNOT_VALUES(input, starts, ends, axes, steps), out_value);
}

carnot_status* carnot_network_add_gather(carnot_network* network, carnot_value* input,
                                         carnot_value* indices, carnot_gather_mode mode, int axis,
                                         int batch_dims, carnot_value** out_value) {
  *out_value = NULL;
  static const carnot_op kOps[] = {CARNOT_OP_GATHER, CARNOT_OP_GATHER_ELEMENTS,
                                   CARNOT_OP_GATHER_ND};
  carnot_op op;
  CARNOT_PICK(kOps, mode, "gather", op);
  CARNOT_CHECK(mode == CARNOT_GATHER_ND || batch_dims == 0, UNSUPPORTED,
               "gather with %d batch dimensions outside of ND", batch_dims);
  carnot_attrs attrs = {0};
  if (mode == CARNOT_GATHER_ND) {
    CARNOT_SET_INT(attrs, network, "batch_dims", batch_dims);
  } else {
    CARNOT_SET_INT(attrs, network, "axis", axis);
  }
  return carnot_network_add_one(network, op, &attrs, CARNOT_VALUES(input, indices), out_value);
}

carnot_status* carnot_network_add_scatter(carnot_network* network, carnot_value* input,
                                          carnot_value* indices, carnot_value* updates,
                                          carnot_scatter_mode mode, int axis,
                                          carnot_value** out_value) {
  *out_value = NULL;
  static const carnot_op kOps[] = {CARNOT_OP_SCATTER_ELEMENTS, CARNOT_OP_SCATTER_ND};
  carnot_op op;
  CARNOT_PICK(kOps, mode, "scatter", op);
  carnot_attrs attrs = {0};
  if (mode == CARNOT_SCATTER_ELEMENT) CARNOT_SET_INT(attrs, network, "axis", axis);
  return carnot_network_add_one(network, op, &attrs, CARNOT_VALUES(input, indices, updates),
                                out_value);
}

carnot_status* carnot_network_add_one_hot(carnot_network* network, carnot_value* indices,
                                          carnot_value* depth, carnot_value* values, int axis,
                                          carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", axis);
  return carnot_network_add_one(network, CARNOT_OP_ONE_HOT, &attrs,
                                CARNOT_VALUES(indices, depth, values), out_value);
}

carnot_status* carnot_network_add_non_zero(carnot_network* network, carnot_value* input,
                                           carnot_value** out_value) {
  return carnot_network_add_one(network, CARNOT_OP_NON_ZERO, NULL, CARNOT_VALUES(input), out_value);
}

carnot_status* carnot_network_add_reverse_sequence(carnot_network* network, carnot_value* input,
                                                   carnot_value* lengths, int batch_axis,
                                                   int sequence_axis, carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "batch_axis", batch_axis);
  CARNOT_SET_INT(attrs, network, "time_axis", sequence_axis);
  return carnot_network_add_one(network, CARNOT_OP_REVERSE_SEQUENCE, &attrs,
                                CARNOT_VALUES(input, lengths), out_value);
}
