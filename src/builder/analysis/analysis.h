// Analysis: what is known of every region before tactics are selected.
#ifndef CARNOT_BUILDER_ANALYSIS_ANALYSIS_H_
#define CARNOT_BUILDER_ANALYSIS_ANALYSIS_H_

#include "builder/internal.h"
#include "plan/region.h"

// One node of the graph, a single operator or a fused region, in the plan's form.
typedef struct carnot_region_facts {
  carnot_node* node;
  const char* name;      // of the node, or of its parts in order: "conv1 + relu1"
  carnot_region region;  // local values numbered; block indices of bodies set
  uint32_t input_count, output_count;
  carnot_value** inputs;  // NULL entries: absent operands
  carnot_value** outputs;
  const carnot_value** inner;  // the other local values, by local index - input_count
  uint32_t block;              // the block that holds it; 0 is the main block
  uint32_t body_count;
  const uint32_t* bodies;  // blocks of its control-flow bodies
  // Computes elements of small tensors that follow from the inputs' shapes: runs when shapes are
  // set, not in the run.
  bool is_shape_step;
  // Its sizes, or whether it runs, depend on values: it is resolved just before it runs. Regions
  // that read results of unknown size are late too; selection finds those.
  bool is_data_dependent;
  bool has_control_flow;
} carnot_region_facts;

typedef struct carnot_block_facts {
  carnot_block* block;
  uint32_t region_count;
  const uint32_t* regions;  // in order of execution
} carnot_block_facts;

typedef struct carnot_analysis {
  uint32_t region_count, block_count, value_count;
  carnot_region_facts* regions;  // a region comes before the regions of its bodies
  carnot_block_facts* blocks;
  bool* is_shape_value;  // by value id: a small tensor that decides sizes
} carnot_analysis;

// Analyses the graph after passes; memory lives in builder->memory.
carnot_status* carnot_analyse(carnot_builder* builder, carnot_analysis* out) CARNOT_MUST_USE;

// Bytes of all constants that regions read.
size_t carnot_analysis_weight_bytes(const carnot_analysis* analysis);

// ---- data_dependence.c ----

// True when the region is a shape step; marks its outputs in analysis->is_shape_value. Regions must
// be asked in order.
bool carnot_region_is_shape_step(const carnot_builder* builder, carnot_analysis* analysis,
                                 const carnot_region_facts* region);
// carnot_region_facts.is_data_dependent.
bool carnot_region_is_data_dependent(const carnot_builder* builder,
                                     const carnot_region_facts* region);
// True for a region that computes at most CARNOT_MAX_SHAPE_ELEMENTS integers.
bool carnot_region_makes_small_integers(const carnot_builder* builder,
                                        const carnot_region_facts* region);
// True for Shape and Size, which read only the dimensions of their input.
bool carnot_region_reads_dims_only(const carnot_region_facts* region);

#endif  // CARNOT_BUILDER_ANALYSIS_ANALYSIS_H_
