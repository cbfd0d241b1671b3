// Regions of quantized operators, for the passes that form them and those that leave them their
// weights.
#ifndef CARNOT_PASS_QUANTIZED_REGION_H_
#define CARNOT_PASS_QUANTIZED_REGION_H_

#include "pass/pass.h"

// Conv, ConvTranspose, MatMul or Gemm of two dequantized operands.
bool carnot_is_quantized_anchor(const carnot_node* node);
// The same of FP8 operands.
bool carnot_is_fp8_anchor(const carnot_node* node);

// Fuses |anchor| with the dequantize nodes of its operands and as much of what follows as one
// kernel of the target takes: bias, residual with its dequantize node, activation, quantize.
// Dequantize nodes that others read too are copied first. *out_region is NULL, and the graph as it
// was, when no kernel takes any.
carnot_status* carnot_fuse_quantized(const carnot_pass_options* options, carnot_node* anchor,
                                     carnot_node** out_region) CARNOT_MUST_USE;

// Fuses the tree of element-wise operators that ends in |root|, a quantize node or an element-wise
// operator, with the dequantize nodes of its operands, where a kernel takes the whole tree.
// *out_region as above.
carnot_status* carnot_fuse_quantized_tree(const carnot_pass_options* options, carnot_node* root,
                                          carnot_node** out_region) CARNOT_MUST_USE;
// Fuses |node|, of an operator with the trait BYTE_ENDS, with the dequantize node of its first
// operand, the quantize node that reads its result, or both, and with an activation between.
// *out_region as above.
carnot_status* carnot_fuse_byte_ends(const carnot_pass_options* options, carnot_node* node,
                                     carnot_node** out_region) CARNOT_MUST_USE;

// Fuses |gemm|, a MatMulInteger or ConvInteger, with the operators that scale its sums, the bias,
// residual, activation and dynamic quantization behind them, and the dynamic quantization before it
// where nothing else reads that.
// The graph stays as it was when no kernel takes them.
carnot_status* carnot_fuse_dynamic(const carnot_pass_options* options,
                                   carnot_node* gemm) CARNOT_MUST_USE;

// Notes at each quantize and dequantize node of |block| why it is a step of its own.
carnot_status* carnot_note_unfused(carnot_block* block) CARNOT_MUST_USE;

// True in *out when a kernel of the target takes |anchor| with its two dequantized operands. The
// graph stays as it is.
carnot_status* carnot_accepts_quantized(const carnot_pass_options* options, carnot_node* anchor,
                                        bool* out) CARNOT_MUST_USE;

// Where a kernel of the target takes |anchor|, a MatMul or Gemm, by constant weights that are
// dequantized, writes the nodes before it to |nodes| [4], followed by |anchor|: the dequantize
// node, and the transpose and the cast between, if any. What others read too is copied first.
// *out_count is 0, and the graph as it was, where no kernel does.
carnot_status* carnot_take_weights(const carnot_pass_options* options, carnot_node* anchor,
                                   carnot_node** nodes, int* out_count) CARNOT_MUST_USE;
// A MatMul or Gemm whose constant weights |dequantize| makes, directly or transposed; NULL: none.
carnot_node* carnot_weights_reader(const carnot_node* dequantize);

// Writes QLinearConv and QLinearMatMul of |block| as dequantize, Conv or MatMul, quantize, where x,
// y have one scale and w one or one a channel.
carnot_status* carnot_decompose_qlinear(carnot_block* block) CARNOT_MUST_USE;

// Quantize or dequantize nodes of one scale each, and equal ones: scales that refit may change are
// equal only where they are one value.
bool carnot_same_quantization(const carnot_pass_options* options, const carnot_node* a,
                              const carnot_node* b);

#endif  // CARNOT_PASS_QUANTIZED_REGION_H_
