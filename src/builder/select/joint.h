// Joint selection of layouts: where greedy choices left a change of layout inside the network, the
// regions around it choose again, together.
//
// It is a PBQP problem, whose nodes are regions and values. The alternatives of a region are its
// candidates for row-major and for channels-last operands, the fastest of each kind. The
// alternatives of a value are the layouts in which it is kept: one, the other, or both, which costs
// the change. All costs are timed. Exploration goes on from region to region while there is a
// choice.
#ifndef CARNOT_BUILDER_SELECT_JOINT_H_
#define CARNOT_BUILDER_SELECT_JOINT_H_

#include "builder/select/assignment.h"
#include "builder/select/pbqp.h"

enum { CARNOT_JOINT_ALTERNATIVES = 6 };

// A candidate of a region.
typedef struct carnot_alternative {
  uint32_t set, candidate;
  uint64_t ns;
} carnot_alternative;

typedef struct carnot_joint_region {
  bool is_explored;
  uint32_t node;   // of the problem
  uint32_t count;  // of alternatives; the first is the greedy choice
  carnot_alternative items[CARNOT_JOINT_ALTERNATIVES];
} carnot_joint_region;

// A value around an explored region.
typedef struct carnot_joint_value {
  uint32_t node;        // of the problem + 1; 0: none
  uint32_t used;        // bit set of the layouts that greedy choices make and read
  double change_ns[2];  // from row-major, and from channels-last
} carnot_joint_value;

typedef struct carnot_joint {
  carnot_builder* builder;
  const carnot_analysis* analysis;
  carnot_candidates* candidates;
  const carnot_assignment* greedy;
  carnot_format* formats;        // by value id: the greedy ones, but for the region that is asked
  carnot_joint_region* regions;  // by region
  uint32_t* producers;           // by value id: region + 1; 0: none
  uint32_t* queue;               // the explored regions
  uint32_t queue_count;
  carnot_joint_value* values;  // by value id
  carnot_pbqp pbqp;
} carnot_joint;

// Where joint choices take less time than those of |greedy|, an assignment for the CPU, sets
// |*out_choices|, by region: those with a count run items[0]. Else it is NULL.
carnot_status* carnot_choose_layouts(carnot_builder* builder, const carnot_analysis* analysis,
                                     carnot_candidates* candidates, const carnot_assignment* greedy,
                                     const carnot_joint_region** out_choices) CARNOT_MUST_USE;

// ---- shared by the files of joint selection ----

static inline carnot_candidate* carnot_joint_candidate(const carnot_joint* joint,
                                                       const carnot_alternative* a) {
  return &joint->candidates->sets[a->set]->items[a->candidate];
}
// Whether |value| is stored differently in the two layouts.
static inline bool carnot_joint_has_layouts(const carnot_value* value) {
  return value && !value->constant && value->type.kind == CARNOT_VALUE_TENSOR &&
         value->type.rank >= 3 && !carnot_layouts_are_same(&value->type);
}

// ---- joint_problem.c ----

// Makes the problem of the explored regions and solves it: moves the alternative that each takes to
// items[0]. |out_ns|: the cost of the greedy choices, and of these.
carnot_status* carnot_joint_solve(carnot_joint* joint, double out_ns[2]) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_JOINT_H_
