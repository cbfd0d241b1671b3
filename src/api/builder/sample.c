// Resampling, detection, generation, quantization, checks.
#include "api/builder/network.h"

static const char* const kInterpolations[] = {"nearest", "linear", "cubic"};

carnot_status* carnot_network_add_resize(carnot_network* network, carnot_value* input,
                                         carnot_value* sizes, carnot_value* scales,
                                         const carnot_resize_config* config,
                                         carnot_value** out_value) {
  *out_value = NULL;
  static const char* const kCoordinates[] = {"half_pixel", "align_corners", "asymmetric",
                                             "pytorch_half_pixel"};
  static const char* const kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                           "ceil"};
  CARNOT_CHECK(config && !sizes != !scales, INVALID_ARGUMENT,
               "resize takes sizes or scales, one of them");
  const char *mode, *coordinates, *rounding;
  CARNOT_PICK(kInterpolations, config->mode, "interpolation", mode);
  CARNOT_PICK(kCoordinates, config->coordinates, "coordinates", coordinates);
  CARNOT_PICK(kRoundings, config->rounding, "rounding", rounding);
  carnot_attrs attrs = {0};
  CARNOT_SET_TEXT(attrs, network, "mode", mode);
  CARNOT_SET_TEXT(attrs, network, "coordinate_transformation_mode", coordinates);
  CARNOT_SET_TEXT(attrs, network, "nearest_mode", rounding);
  CARNOT_SET_INT(attrs, network, "exclude_outside", config->exclude_outside);
  if (config->cubic_coefficient != 0)
    CARNOT_SET_FLOAT(attrs, network, "cubic_coeff_a", config->cubic_coefficient);
  return carnot_network_add_one(network, CARNOT_OP_RESIZE, &attrs,
                                CARNOT_VALUES(input, NULL, scales, sizes), out_value);
}

carnot_status* carnot_network_add_grid_sample(carnot_network* network, carnot_value* input,
                                              carnot_value* grid,
                                              carnot_interpolation interpolation,
                                              bool align_corners, carnot_sample_mode outside,
                                              carnot_value** out_value) {
  *out_value = NULL;
  static const char* const kOutside[] = {"zeros", "border", "reflection"};
  const char *mode, *padding;
  CARNOT_PICK(kInterpolations, interpolation, "interpolation", mode);
  CARNOT_PICK(kOutside, outside, "sample mode", padding);
  carnot_attrs attrs = {0};
  CARNOT_SET_TEXT(attrs, network, "mode", mode);
  CARNOT_SET_TEXT(attrs, network, "padding_mode", padding);
  CARNOT_SET_INT(attrs, network, "align_corners", align_corners);
  return carnot_network_add_one(network, CARNOT_OP_GRID_SAMPLE, &attrs, CARNOT_VALUES(input, grid),
                                out_value);
}

carnot_status* carnot_network_add_nms(carnot_network* network, carnot_value* boxes,
                                      carnot_value* scores, carnot_value* max_boxes,
                                      carnot_value* iou_threshold, carnot_value* score_threshold,
                                      bool center, carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "center_point_box", center);
  return carnot_network_add_one(
      network, CARNOT_OP_NON_MAX_SUPPRESSION, &attrs,
      CARNOT_VALUES(boxes, scores, max_boxes, iou_threshold, score_threshold), out_value);
}

carnot_status* carnot_network_add_fill_linspace(carnot_network* network, carnot_value* start,
                                                carnot_value* limit, carnot_value* delta,
                                                carnot_value** out_value) {
  return carnot_network_add_one(network, CARNOT_OP_RANGE, NULL, CARNOT_VALUES(start, limit, delta),
                                out_value);
}

carnot_status* carnot_network_add_fill_constant(carnot_network* network, carnot_value* dims,
                                                carnot_dtype dtype, double number,
                                                carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(dtype > CARNOT_DTYPE_INVALID && dtype < CARNOT_DTYPE_C64, INVALID_ARGUMENT,
               "a fill of type %d", (int)dtype);
  carnot_graph* graph = network->graph;
  carnot_tensor* value = CARNOT_NEW(&graph->arena, carnot_tensor);
  *value = (carnot_tensor){
      .dtype = dtype, .rank = 1, .dims = {1}, .data = carnot_arena_alloc(&graph->arena, 1, 16)};
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  carnot_store_f64(dtype, value->data, 0, number);
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, &graph->arena,
                   (carnot_attr){.name = "value", .type = CARNOT_ATTR_TENSOR, .tensor = value});
  return carnot_network_add_one(network, CARNOT_OP_CONSTANT_OF_SHAPE, &attrs, CARNOT_VALUES(dims),
                                out_value);
}

carnot_status* carnot_network_add_fill_random(carnot_network* network, const carnot_dims* dims,
                                              carnot_dtype dtype, bool normal, double a, double b,
                                              double seed, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(dims && dims->rank >= 0 && dims->rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "a fill of %d dimensions", dims ? dims->rank : -1);
  carnot_attrs attrs = {0};
  CARNOT_SET_INTS(attrs, network, "shape", dims->d, dims->rank);
  CARNOT_SET_INT(attrs, network, "dtype", dtype);
  CARNOT_SET_FLOAT(attrs, network, normal ? "mean" : "low", a);
  CARNOT_SET_FLOAT(attrs, network, normal ? "scale" : "high", b);
  if (seed != 0) CARNOT_SET_FLOAT(attrs, network, "seed", seed);
  return carnot_network_add_one(network,
                                normal ? CARNOT_OP_RANDOM_NORMAL : CARNOT_OP_RANDOM_UNIFORM, &attrs,
                                NULL, 0, out_value);
}

carnot_status* carnot_network_add_quantize(carnot_network* network, carnot_value* input,
                                           carnot_value* scale, carnot_value* zero_point, int axis,
                                           int64_t block, carnot_dtype to,
                                           carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", axis);
  CARNOT_SET_INT(attrs, network, "block_size", block);
  CARNOT_SET_INT(attrs, network, "output_dtype", to);
  return carnot_network_add_one(network, CARNOT_OP_QUANTIZE_LINEAR, &attrs,
                                CARNOT_VALUES(input, scale, zero_point), out_value);
}

carnot_status* carnot_network_add_dequantize(carnot_network* network, carnot_value* input,
                                             carnot_value* scale, carnot_value* zero_point,
                                             int axis, int64_t block, carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", axis);
  CARNOT_SET_INT(attrs, network, "block_size", block);
  return carnot_network_add_one(network, CARNOT_OP_DEQUANTIZE_LINEAR, &attrs,
                                CARNOT_VALUES(input, scale, zero_point), out_value);
}

carnot_status* carnot_network_add_assertion(carnot_network* network, carnot_value* condition,
                                            const char* message) {
  (void)network;
  CARNOT_CHECK(condition && condition->type.dtype == CARNOT_DTYPE_BOOL, INVALID_ARGUMENT,
               "an assertion needs a bool");
  CARNOT_CHECK(condition->constant || condition->syms, UNSUPPORTED,
               "the assertion on %s can only be checked by a run", condition->name);
  if (condition->constant) {
    const carnot_tensor* t = &condition->constant->tensor;
    for (int64_t i = 0; i < carnot_tensor_count(t); i++)
      CARNOT_CHECK(((const bool*)t->data)[i], FAILED_PRECONDITION, "%s", message);
    return NULL;
  }
  for (size_t i = 0; i < condition->sym_count; i++) {
    CARNOT_CHECK(carnot_sym_is_const(condition->syms[i]), UNSUPPORTED,
                 "the assertion on %s can only be checked by a run", condition->name);
    CARNOT_CHECK(condition->syms[i].bits, FAILED_PRECONDITION, "%s", message);
  }
  return NULL;
}
