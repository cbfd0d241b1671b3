// The normalization problem, for tactics of every backend: layer, RMS, group and instance
// normalization and (log-)softmax as the first node of a region.
//   layer norm  y = (x - mean) / sqrt(variance + epsilon) * scale + bias
//   RMS norm    y = x / sqrt(mean of squares + epsilon) * scale
//   softmax     y = exp(x - max) / sum of exp(x - max)
// over the axes from |axis| on (layer, RMS), over one axis (softmax), or over each group of
// channels of an image (group norm; instance norm has one group per channel).
#ifndef CARNOT_TACTIC_PROBLEM_NORM_H_
#define CARNOT_TACTIC_PROBLEM_NORM_H_

#include "tactic/tactic.h"

typedef enum carnot_norm_kind {
  CARNOT_NORM_LAYER,
  CARNOT_NORM_RMS,
  CARNOT_NORM_GROUP,
  CARNOT_NORM_INSTANCE,
  CARNOT_NORM_SOFTMAX,
  CARNOT_NORM_LOG_SOFTMAX
} carnot_norm_kind;

// x is operand 0 of the node.
typedef struct carnot_norm_problem {
  carnot_norm_kind kind;
  uint32_t scale, bias;  // inputs of the step; NONE
  double epsilon;        // 0: softmax
  int64_t axis;          // the attribute: negative counts from the end. Unused by channel
  int64_t groups;        // of GROUP; else 0
} carnot_norm_problem;

// Layer or RMS norm: trailing axes are normalized, scale and bias run along them.
static inline bool carnot_norm_is_by_row(const carnot_norm_problem* problem) {
  return problem->kind == CARNOT_NORM_LAYER || problem->kind == CARNOT_NORM_RMS;
}
// Group or instance norm: scale and bias have one number per channel (axis 1).
static inline bool carnot_norm_is_by_channel(const carnot_norm_problem* problem) {
  return problem->kind == CARNOT_NORM_GROUP || problem->kind == CARNOT_NORM_INSTANCE;
}
static inline bool carnot_norm_is_softmax(const carnot_norm_problem* problem) {
  return problem->kind == CARNOT_NORM_SOFTMAX || problem->kind == CARNOT_NORM_LOG_SOFTMAX;
}
// The axis counted from 0; out of [0, rank) where the model is wrong.
static inline int64_t carnot_norm_axis(const carnot_norm_problem* problem, int rank) {
  return problem->axis < 0 ? problem->axis + rank : problem->axis;
}
// Groups of an image of |channels| channels.
static inline int64_t carnot_norm_groups(const carnot_norm_problem* problem, int64_t channels) {
  return problem->kind == CARNOT_NORM_INSTANCE ? channels : problem->groups;
}

// Reads |node|. False when it is no normalization.
bool carnot_norm_read_node(const carnot_plan_node* node, carnot_norm_problem* out);
// Reads node 0 of |region|. False when it is no normalization.
bool carnot_norm_read(const carnot_region* region, carnot_norm_problem* out);

// x as [outer, size, inner], of which |size| elements at a time are normalized together.
typedef struct carnot_norm_extents {
  int64_t outer, size, inner;
  // By channel: of an image, with |spatial| elements per channel; else 1.
  int64_t channels, groups, spatial;
} carnot_norm_extents;
// From the dimensions of x. INVALID_MODEL where the axis is out of range or the groups do not
// divide the channels.
carnot_status* carnot_norm_extents_of(const carnot_norm_problem* problem, int rank,
                                      const int64_t* dims,
                                      carnot_norm_extents* out) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_PROBLEM_NORM_H_
