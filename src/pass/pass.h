// Graph passes: functions graph -> graph. Each pass is one file and one row of passes.c, can be
// switched off by name, and the graph can be printed after it.
#ifndef CARNOT_PASS_PASS_H_
#define CARNOT_PASS_PASS_H_

#include "base/executor.h"
#include "ir/graph.h"

typedef struct carnot_pass_options {
  carnot_executor* executor;  // for constant folding; NULL: one thread
  bool refit;                 // weights may change later: no pass may rely on their values
  const char* const* disabled;
  size_t disabled_count;
  const char* dump;   // print the graph after this pass to stderr; "all": after each
  bool none;          // run only passes whose row says |always|
  bool device;        // for an accelerator: passes that serve the CPU's tactics are left out
  carnot_dtype half;  // FP16 or BF16: FP32 layers may be stored in it; INVALID: none
  // True when one kernel of the target computes |nodes| as one region: nodes of one block in order;
  // the region's outputs are the values that others read. Passes that fuse for a single kernel ask
  // it and know no limits of kernels. NULL: no kernel takes any.
  bool (*accepts)(void* user, carnot_node* const* nodes, int count);
  void* accepts_user;
} carnot_pass_options;

typedef struct carnot_pass_row {
  const char* name;
  const char* does;  // one line for --help and docs
  carnot_status* (*run)(carnot_graph* graph, const carnot_pass_options* options);
  bool always;    // part of how the target stores numbers: runs with passes switched off, too
  bool cpu_only;  // left out for an accelerator
} carnot_pass_row;

// All passes in their order; a pass may occur twice.
const carnot_pass_row* carnot_passes(size_t* out_count);
// Runs the passes that |options| leave in. An error names the pass; the graph may then be half
// rewritten.
carnot_status* carnot_passes_run(carnot_graph* graph,
                                 const carnot_pass_options* options) CARNOT_MUST_USE;

carnot_status* carnot_pass_decompose_attention(carnot_graph* graph,
                                               const carnot_pass_options* options);
carnot_status* carnot_pass_decompose_einsum(carnot_graph* graph,
                                            const carnot_pass_options* options);
carnot_status* carnot_pass_constant_folding(carnot_graph* graph,
                                            const carnot_pass_options* options);
carnot_status* carnot_pass_algebraic_simplify(carnot_graph* graph,
                                              const carnot_pass_options* options);
carnot_status* carnot_pass_fold_shape_computations(carnot_graph* graph,
                                                   const carnot_pass_options* options);
carnot_status* carnot_pass_simplify_attention_mask(carnot_graph* graph,
                                                   const carnot_pass_options* options);
carnot_status* carnot_pass_dce(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_cse(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_fuse_activations(carnot_graph* graph,
                                            const carnot_pass_options* options);
carnot_status* carnot_pass_fuse_norms(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_hoist_slices(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_fuse_attention(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_fold_batch_norm(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_promote_half_to_f32(carnot_graph* graph,
                                               const carnot_pass_options* options);
carnot_status* carnot_pass_convert_to_mixed_precision(carnot_graph* graph,
                                                      const carnot_pass_options* options);
carnot_status* carnot_pass_fuse_qkv_projections(carnot_graph* graph,
                                                const carnot_pass_options* options);
carnot_status* carnot_pass_sink_reshapes(carnot_graph* graph, const carnot_pass_options* options);
carnot_status* carnot_pass_apply_layer_precision(carnot_graph* graph,
                                                 const carnot_pass_options* options);
carnot_status* carnot_pass_fuse_squeeze_excite(carnot_graph* graph,
                                               const carnot_pass_options* options);
carnot_status* carnot_pass_form_fusion_regions(carnot_graph* graph,
                                               const carnot_pass_options* options);

// ---- helpers that passes share (pass_util.c) ----

static inline bool carnot_pass_accepts(const carnot_pass_options* options,
                                       carnot_node* const* nodes, int count) {
  return options->accepts && options->accepts(options->accepts_user, nodes, count);
}

// The only reader of |value|, or NULL when there are more, none, or it is a result.
carnot_node* carnot_only_user(const carnot_value* value);
// A tensor whose rank is known.
static inline bool carnot_is_ranked(const carnot_value* value) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR && value->type.rank >= 0;
}
// Tensors of the same known rank and dimensions.
bool carnot_same_dims(const carnot_type* a, const carnot_type* b);
// The attribute fn of a pointwise node, CARNOT_FN_COUNT for others.
carnot_fn carnot_node_fn(const carnot_node* node);
static inline bool carnot_node_is_fn(const carnot_node* node, carnot_fn fn) {
  return node && carnot_node_fn(node) == fn;
}
// A constant with one element, as a number.
bool carnot_value_scalar(const carnot_value* value, double* out);
// A constant list of integers; count -1 when it is none.
int carnot_value_ints(const carnot_value* value, int64_t* out, int capacity);
// |from| as |to|, before |at|.
carnot_status* carnot_insert_cast(carnot_node* at, carnot_value* from, carnot_dtype to,
                                  carnot_value** out) CARNOT_MUST_USE;
// Calls |visit| on every block: bodies before the blocks that hold them.
carnot_status* carnot_each_block(carnot_block* block,
                                 carnot_status* (*visit)(carnot_block* block, void* user),
                                 void* user);
// A region of |nodes| (in order) at the place of the last; its outputs are what others read.
// *out_node may be NULL.
carnot_status* carnot_fuse(carnot_node* const* nodes, int count,
                           carnot_node** out_node) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_PASS_H_
