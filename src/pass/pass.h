// Graph passes: functions graph -> graph. Each pass is one file and one row of passes.c, can be
// switched off by name, and the graph can be printed after it.
#ifndef CARNOT_PASS_PASS_H_
#define CARNOT_PASS_PASS_H_

#include "base/executor.h"
#include "ir/graph.h"

// How insert_qdq writes networks for files. All zero: for Carnot's own kernels.
typedef struct carnot_qdq_style {
  carnot_dtype type;    // of activations: I8, U8 or F8E4M3FN; INVALID: I8 or U8, as the range is
  bool is_exported;     // operators between quantized layers compute in float32, as biases do
  bool rounds_results;  // results of layers are quantized, not only operands
  bool attention;       // of FP8: queries, keys, values and softmax's result are quantized too
} carnot_qdq_style;

typedef struct carnot_pass_options {
  carnot_executor* executor;  // for constant folding; NULL: one thread
  bool refit;                 // weights may change later: no pass may rely on their values
  const char* const* disabled;
  size_t disabled_count;
  const char* dump;  // print the graph after this pass to stderr; "all": after each
  bool none;         // run only passes whose row says |always|
  bool device;       // for an accelerator: passes that serve the CPU's tactics are left out
  bool quantize;     // 8-bit types for layers whose tensors have ranges
  carnot_qdq_style qdq;
  carnot_dtype half;  // FP16 or BF16: FP32 layers may be stored in it; INVALID: none
  // True when one kernel of the target computes |nodes| as one region: nodes of one block in order;
  // the region's outputs are the values that others read. Passes that fuse for a single kernel ask
  // it and know no limits of kernels. NULL: no kernel takes any.
  bool (*accepts)(void* user, carnot_node* const* nodes, int count);
  // The same of a kernel that computes in |half|. NULL: none does.
  bool (*accepts_half)(void* user, carnot_node* const* nodes, int count);
  // The same of any kernel, however slow. NULL: every region can be computed.
  bool (*computes)(void* user, carnot_node* const* nodes, int count);
  // Why the last region was not accepted, "" without a reason. NULL: not known.
  const char* (*refusal)(void* user);
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

// ---- the passes ----
// Quantized operators as dequantize, plain operator, quantize; what only moves elements between
// integers.
carnot_status* carnot_pass_quantize(carnot_graph* graph,
                                    const carnot_pass_options* options) CARNOT_MUST_USE;
// Attention -> matmul, softmax, matmul.
carnot_status* carnot_pass_decompose_attention(carnot_graph* graph,
                                               const carnot_pass_options* options) CARNOT_MUST_USE;
// Einsum -> transpose, matmul, reshape.
carnot_status* carnot_pass_decompose_einsum(carnot_graph* graph,
                                            const carnot_pass_options* options) CARNOT_MUST_USE;
// Gemm of a transposed A or a computed B -> transpose, matmul, affine, add (CPU).
carnot_status* carnot_pass_decompose_gemm(carnot_graph* graph,
                                          const carnot_pass_options* options) CARNOT_MUST_USE;
// x^2 and x^3 -> products (CPU).
carnot_status* carnot_pass_expand_powers(carnot_graph* graph,
                                         const carnot_pass_options* options) CARNOT_MUST_USE;
// LpPool -> average_pool of powers, and the root (CPU).
carnot_status* carnot_pass_decompose_lp_pool(carnot_graph* graph,
                                             const carnot_pass_options* options) CARNOT_MUST_USE;
// Transposed convolution -> convolution, shuffle, crop (accelerator).
carnot_status* carnot_pass_decompose_conv_transpose(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Nodes whose inputs are all constant become constants; notes which node made each, for refit.
carnot_status* carnot_pass_constant_folding(carnot_graph* graph,
                                            const carnot_pass_options* options) CARNOT_MUST_USE;
// Removes nodes whose result equals an input; merges pairs of transposes and of reshapes.
carnot_status* carnot_pass_algebraic_simplify(carnot_graph* graph,
                                              const carnot_pass_options* options) CARNOT_MUST_USE;
// Reshape targets that are known as expressions become constants with 0 and -1.
carnot_status* carnot_pass_fold_shape_computations(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Loops of known length: stacked results in place of lists; LSTM, GRU and RNN in place of loops
// over their cells.
carnot_status* carnot_pass_simplify_loops(carnot_graph* graph,
                                          const carnot_pass_options* options) CARNOT_MUST_USE;
// Moves transposes between channels-first and channels-last through operators until they vanish.
carnot_status* carnot_pass_layout(carnot_graph* graph,
                                  const carnot_pass_options* options) CARNOT_MUST_USE;
// Masks of attention as terms of the scores; biases of heads before the reshape that splits heads.
carnot_status* carnot_pass_simplify_attention(carnot_graph* graph,
                                              const carnot_pass_options* options) CARNOT_MUST_USE;
// Undoes index arithmetic and broadcasts that make attention masks larger than their operands.
carnot_status* carnot_pass_simplify_attention_mask(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Removes nodes, and optional last outputs, that nothing reads.
carnot_status* carnot_pass_dce(carnot_graph* graph,
                               const carnot_pass_options* options) CARNOT_MUST_USE;
// Merges nodes of equal operator, attributes and inputs.
carnot_status* carnot_pass_cse(carnot_graph* graph,
                               const carnot_pass_options* options) CARNOT_MUST_USE;
// Recognises GELU, SiLU, hard-swish and others from their parts.
carnot_status* carnot_pass_fuse_activations(carnot_graph* graph,
                                            const carnot_pass_options* options) CARNOT_MUST_USE;
// Recognises layer and RMS normalization from their parts.
carnot_status* carnot_pass_fuse_norms(carnot_graph* graph,
                                      const carnot_pass_options* options) CARNOT_MUST_USE;
// Recognises group normalization written as instance normalization of reshaped groups.
carnot_status* carnot_pass_fuse_group_norm(carnot_graph* graph,
                                           const carnot_pass_options* options) CARNOT_MUST_USE;
// Moves slices and gathers of a result up to the operands, through GEMMs, norms and pointwise
// nodes.
carnot_status* carnot_pass_hoist_slices(carnot_graph* graph,
                                        const carnot_pass_options* options) CARNOT_MUST_USE;
// Fuses scaled dot-product attention into one region where a kernel takes it.
carnot_status* carnot_pass_fuse_attention(carnot_graph* graph,
                                          const carnot_pass_options* options) CARNOT_MUST_USE;
// The same between 8-bit integers alone, before other layers become half precision (accelerator).
carnot_status* carnot_pass_fuse_quantized_attention(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Recognises the rotary embedding of heads from its parts (CPU).
carnot_status* carnot_pass_fuse_rotary(carnot_graph* graph,
                                       const carnot_pass_options* options) CARNOT_MUST_USE;
// Rotary embedding of the heads of a packed projection -> RotaryEmbedding of its rows
// (accelerator).
carnot_status* carnot_pass_fuse_packed_rotary(carnot_graph* graph,
                                              const carnot_pass_options* options) CARNOT_MUST_USE;
// Recognises attention over caches, or over heads that queries share, from its parts (CPU).
carnot_status* carnot_pass_compose_attention(carnot_graph* graph,
                                             const carnot_pass_options* options) CARNOT_MUST_USE;
// Fuses Attention with its cache, rotary embedding and heads into one region where a kernel takes
// it.
carnot_status* carnot_pass_fuse_cached_attention(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Folds padding with zeros before a convolution into its own padding.
carnot_status* carnot_pass_fold_pads(carnot_graph* graph,
                                     const carnot_pass_options* options) CARNOT_MUST_USE;
// Folds a crop behind a transposed convolution into its padding.
carnot_status* carnot_pass_fold_crops(carnot_graph* graph,
                                      const carnot_pass_options* options) CARNOT_MUST_USE;
// Folds batch normalization, and products and sums by channel, behind a convolution into its
// weights.
carnot_status* carnot_pass_fold_batch_norm(carnot_graph* graph,
                                           const carnot_pass_options* options) CARNOT_MUST_USE;
// FP16 and BF16 networks compute in FP32 (CPU).
carnot_status* carnot_pass_promote_half_to_f32(carnot_graph* graph,
                                               const carnot_pass_options* options) CARNOT_MUST_USE;
// Makes the channels of tensors with factors alike, which layers in 8 bits read.
carnot_status* carnot_pass_equalize(carnot_graph* graph,
                                    const carnot_pass_options* options) CARNOT_MUST_USE;
// Quantize and dequantize nodes around layers whose tensors have ranges.
carnot_status* carnot_pass_insert_qdq(carnot_graph* graph,
                                      const carnot_pass_options* options) CARNOT_MUST_USE;
// True for a layer that insert_qdq quantizes where its first input has a range.
bool carnot_takes_qdq(const carnot_node* node);
// The same of a layer that may be in half precision, once it computes in FP32.
bool carnot_takes_qdq_in_f32(const carnot_node* node);
// FP32 layers are stored as options->half or the type requested for them (accelerator).
carnot_status* carnot_pass_convert_to_mixed_precision(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Depthwise convolutions with the 1x1 convolutions around them as one region (CPU).
carnot_status* carnot_pass_fuse_conv_chains(carnot_graph* graph,
                                            const carnot_pass_options* options) CARNOT_MUST_USE;
// Joins query, key and value projections of one value into one GEMM.
carnot_status* carnot_pass_fuse_qkv_projections(carnot_graph* graph,
                                                const carnot_pass_options* options) CARNOT_MUST_USE;
// reshape(gemm) + r -> reshape(gemm + reshape(r)), so that the residual fuses into the epilogue.
carnot_status* carnot_pass_sink_reshapes(carnot_graph* graph,
                                         const carnot_pass_options* options) CARNOT_MUST_USE;
// Writes the rounding of layers for which FP16 or BF16 was requested.
carnot_status* carnot_pass_apply_layer_precision(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Fuses squeeze-and-excitation into one region where a kernel takes it.
carnot_status* carnot_pass_fuse_squeeze_excite(carnot_graph* graph,
                                               const carnot_pass_options* options) CARNOT_MUST_USE;
// Fuses anchors with their epilogues, and chains of pointwise nodes, into regions.
carnot_status* carnot_pass_form_fusion_regions(carnot_graph* graph,
                                               const carnot_pass_options* options) CARNOT_MUST_USE;

// Products over the heads of scores between transposes -> mix_heads (accelerator).
carnot_status* carnot_pass_mix_heads(carnot_graph* graph,
                                     const carnot_pass_options* options) CARNOT_MUST_USE;
// Attention between channels of a packed projection -> cross_covariance (accelerator).
carnot_status* carnot_pass_fuse_cross_covariance(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// What is written once for each step of an unrolled loop -> one computation of all (accelerator).
carnot_status* carnot_pass_roll_steps(carnot_graph* graph,
                                      const carnot_pass_options* options) CARNOT_MUST_USE;
// GEMM between transposes -> GEMM of the transposed weights (accelerator).
carnot_status* carnot_pass_transpose_gemms(carnot_graph* graph,
                                           const carnot_pass_options* options) CARNOT_MUST_USE;
// Heads split from channels of convolutions -> from channels that are last (processor).
carnot_status* carnot_pass_channels_last_heads(carnot_graph* graph,
                                               const carnot_pass_options* options) CARNOT_MUST_USE;
// GatherElements and ScatterElements by expanded indices -> GatherND and ScatterND (processor).
carnot_status* carnot_pass_fold_expanded_indices(
    carnot_graph* graph, const carnot_pass_options* options) CARNOT_MUST_USE;
// Slices that cut a tensor into parts -> Split (accelerator).
carnot_status* carnot_pass_join_slices(carnot_graph* graph,
                                       const carnot_pass_options* options) CARNOT_MUST_USE;
// Writes a Concat that begins with the operands of another as one of its result.
carnot_status* carnot_pass_nest_concats(carnot_graph* graph,
                                        const carnot_pass_options* options) CARNOT_MUST_USE;
// Sums of convolutions of one input -> one convolution.
carnot_status* carnot_pass_merge_convolutions(carnot_graph* graph,
                                              const carnot_pass_options* options) CARNOT_MUST_USE;
// Leaves out taps of convolutions that read nothing but padding.
carnot_status* carnot_pass_trim_convolutions(carnot_graph* graph,
                                             const carnot_pass_options* options) CARNOT_MUST_USE;
// Channels between convolutions become multiples of eight where half precision may be chosen
// (accelerator).
carnot_status* carnot_pass_pad_channels(carnot_graph* graph,
                                        const carnot_pass_options* options) CARNOT_MUST_USE;
// Chains of transposes and reshapes -> one transpose of rows (CPU).
carnot_status* carnot_pass_join_transposes(carnot_graph* graph,
                                           const carnot_pass_options* options) CARNOT_MUST_USE;
// Chains of copies of one tensor's elements -> one gather (accelerator).
carnot_status* carnot_pass_fuse_rearrangements(carnot_graph* graph,
                                               const carnot_pass_options* options) CARNOT_MUST_USE;

// ---- helpers that passes share (pass_util.c) ----

// Asks options->accepts.
static inline bool carnot_pass_accepts(const carnot_pass_options* options,
                                       carnot_node* const* nodes, int count) {
  return options->accepts && options->accepts(options->accepts_user, nodes, count);
}

// Asks options->computes.
static inline bool carnot_pass_computes(const carnot_pass_options* options,
                                        carnot_node* const* nodes, int count) {
  return !options->computes || options->computes(options->accepts_user, nodes, count);
}

// True where |b| is |a| or a later node of its block. |a| may be NULL.
bool carnot_node_comes_before(const carnot_node* a, const carnot_node* b);
// The only reader of |value|, or NULL when there are more, none, or it is a result.
carnot_node* carnot_only_user(const carnot_value* value);
// What makes |value|, which one node reads; else NULL. |value| may be NULL.
carnot_node* carnot_only_producer(const carnot_value* value);
// True for a transpose by |perm| [rank]. |node| may be NULL.
bool carnot_has_perm(const carnot_node* node, const int64_t* perm, size_t rank);
// |node|, which may be NULL, is a transpose of the last two axes.
bool carnot_swaps_last(const carnot_node* node);
// Elements [start, end) of a known axis, each |step|th.
typedef struct carnot_slice {
  carnot_value* from;
  int64_t axis, start, end, step;
} carnot_slice;
// True where |value| (may be NULL) is a slice along one axis of known size, from front to back by
// constant positions, or a part of a split.
bool carnot_read_slice(const carnot_value* value, carnot_slice* out);
// The tensor of whose first axis |value| is one element, *out_index, by Gather, or by Slice or
// Split and Squeeze; else NULL.
carnot_value* carnot_element_of(const carnot_value* value, int64_t* out_index);
// A tensor whose rank is known.
static inline bool carnot_is_ranked(const carnot_value* value) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR && value->type.rank >= 0;
}
// Tensors of the same known rank and dimensions.
bool carnot_same_dims(const carnot_type* a, const carnot_type* b);
// The function that an element-wise node applies; CARNOT_FN_COUNT for other nodes and NULL.
carnot_fn carnot_node_fn(const carnot_node* node);
// True when |node| (may be NULL) applies |fn|.
static inline bool carnot_node_is_fn(const carnot_node* node, carnot_fn fn) {
  return node && carnot_node_fn(node) == fn;
}
// True when |value| (may be NULL) is a constant of one element, which goes to *out as a number.
bool carnot_value_scalar(const carnot_value* value, double* out);
// Elements of a constant integer tensor of at most |capacity| elements; returns their count, or -1.
int carnot_value_ints(const carnot_value* value, int64_t* out, int capacity);
// Inserts a cast of |from| to type |to| before |at|; *out is its result.
carnot_status* carnot_insert_cast(carnot_node* at, carnot_value* from, carnot_dtype to,
                                  carnot_value** out) CARNOT_MUST_USE;
// Calls |visit| on |block| and the blocks in it but fused regions: bodies before the blocks that
// hold them. Stops at the first error.
carnot_status* carnot_each_block(carnot_block* block,
                                 carnot_status* (*visit)(carnot_block* block, void* user),
                                 void* user) CARNOT_MUST_USE;
// |node| computes what |last| did from its own inputs: absorbs |last| and the nodes between, which
// nothing else reads. To be called before readers of |last| are moved to |node|.
void carnot_absorb_pattern(carnot_node* node, carnot_node* last);
// Positions of the nodes of |block| by id, from the graph's arena. Nodes that are added later have
// none.
carnot_status* carnot_block_positions(const carnot_block* block,
                                      uint32_t** out_positions) CARNOT_MUST_USE;
// Brings |nodes|, all of the block as it was numbered, into its order.
void carnot_sort_nodes(carnot_node** nodes, int count, const uint32_t* positions);
// Replaces |nodes| (of one block, in order) by one REGION node in the position of the last. Its
// outputs are the values that other nodes or the block's results read. |out_node| may be NULL.
carnot_status* carnot_fuse(carnot_node* const* nodes, int count,
                           carnot_node** out_node) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_PASS_H_
