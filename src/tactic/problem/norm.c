// Reads the normalization problem of a region: kind, operands, axis, groups and extents.
#include "tactic/problem/norm.h"

static bool kind_of(carnot_op op, carnot_norm_kind* out) {
  static const struct {
    carnot_op op;
    carnot_norm_kind kind;
  } kKinds[] = {
      {CARNOT_OP_LAYER_NORM, CARNOT_NORM_LAYER}, {CARNOT_OP_RMS_NORM, CARNOT_NORM_RMS},
      {CARNOT_OP_GROUP_NORM, CARNOT_NORM_GROUP}, {CARNOT_OP_INSTANCE_NORM, CARNOT_NORM_INSTANCE},
      {CARNOT_OP_SOFTMAX, CARNOT_NORM_SOFTMAX},  {CARNOT_OP_LOG_SOFTMAX, CARNOT_NORM_LOG_SOFTMAX}};
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); i++)
    if (kKinds[i].op == op) return *out = kKinds[i].kind, true;
  return false;
}

bool carnot_norm_read_node(const carnot_plan_node* node, carnot_norm_problem* out) {
  const carnot_op_row* row = carnot_op_get(node->op);
  *out = (carnot_norm_problem){.scale = CARNOT_PLAN_NONE, .bias = CARNOT_PLAN_NONE};
  if (!kind_of(node->op, &out->kind)) return false;
  if (!carnot_norm_is_by_channel(out)) out->axis = carnot_attr_int(row, &node->attrs, "axis");
  if (carnot_norm_is_softmax(out)) return true;
  out->epsilon = carnot_attr_float(row, &node->attrs, "epsilon");
  if (node->input_count > 1) out->scale = node->inputs[1];
  if (node->input_count > 2) out->bias = node->inputs[2];
  if (out->kind == CARNOT_NORM_GROUP)
    out->groups = carnot_attr_int(row, &node->attrs, "num_groups");
  return true;
}

bool carnot_norm_read(const carnot_region* region, carnot_norm_problem* out) {
  return carnot_norm_read_node(&region->nodes[0], out);
}

static carnot_status* extents_by_channel(const carnot_norm_problem* problem, int rank,
                                         const int64_t* dims, carnot_norm_extents* out) {
  CARNOT_CHECK(rank >= 2, INVALID_MODEL, "x has rank %d; 2 is required", rank);
  out->channels = dims[1];
  out->groups = carnot_norm_groups(problem, out->channels);
  CARNOT_CHECK(out->groups > 0 && out->channels % out->groups == 0, INVALID_MODEL,
               "%lld groups of %lld channels", (long long)out->groups, (long long)out->channels);
  out->spatial = carnot_dims_count(dims + 2, rank - 2);
  out->outer = dims[0] * out->groups;
  out->size = out->channels / out->groups * out->spatial;
  return NULL;
}

carnot_status* carnot_norm_extents_of(const carnot_norm_problem* problem, int rank,
                                      const int64_t* dims, carnot_norm_extents* out) {
  *out = (carnot_norm_extents){1, 1, 1, 1, 1, 1};
  if (carnot_norm_is_by_channel(problem)) return extents_by_channel(problem, rank, dims, out);
  if (!rank && carnot_norm_is_softmax(problem)) return NULL;
  const int64_t axis = carnot_norm_axis(problem, rank);
  CARNOT_CHECK(axis >= 0 && axis < rank, INVALID_MODEL, "axis %lld of rank %d",
               (long long)problem->axis, rank);
  const int end = carnot_norm_is_softmax(problem) ? (int)axis + 1 : rank;
  out->outer = carnot_dims_count(dims, (int)axis);
  out->size = carnot_dims_count(dims + axis, end - (int)axis);
  out->inner = carnot_dims_count(dims + end, rank - end);
  return NULL;
}
