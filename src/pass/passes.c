// The table of graph passes in their order, and the function that runs them.
#include <stdio.h>

#include "pass/pass.h"

static const carnot_pass_row kPasses[] = {
    {"quantize", "writes quantized operators as dequantize, plain operator, quantize",
     carnot_pass_quantize, false, false},
    {"decompose_attention", "writes Attention as matmul, softmax, matmul",
     carnot_pass_decompose_attention, false, false},
    {"decompose_einsum", "writes Einsum as transpose, matmul, reshape",
     carnot_pass_decompose_einsum, false, false},
    {"constant_folding", "computes nodes whose inputs are all constant",
     carnot_pass_constant_folding, false, false},
    {"fold_shape_computations", "replaces shape arithmetic by constants",
     carnot_pass_fold_shape_computations, false, false},
    {"simplify_loops", "writes loops of known length as stacked results, LSTM, GRU and RNN",
     carnot_pass_simplify_loops, false, false},
    {"constant_folding", "folds the sizes and weights that loops had", carnot_pass_constant_folding,
     false, false},
    {"fold_shape_computations", "replaces the sizes that loops had by constants",
     carnot_pass_fold_shape_computations, false, false},
    {"decompose_gemm", "writes Gemm of a transposed or two computed matrices as matmul",
     carnot_pass_decompose_gemm, false, true},
    {"decompose_lp_pool", "writes LpPool as average pooling of powers",
     carnot_pass_decompose_lp_pool, false, true},
    {"algebraic_simplify", "removes identities, merges pairs of transposes and of reshapes",
     carnot_pass_algebraic_simplify, false, false},
    {"fuse_norms", "recognises layer and RMS normalization", carnot_pass_fuse_norms, false, false},
    {"mix_heads", "recognises products over the heads of attention scores", carnot_pass_mix_heads,
     false, false},
    {"transpose_gemms", "writes a GEMM between transposes as one of transposed weights",
     carnot_pass_transpose_gemms, false, false},
    {"layout", "moves transposes between channel orders until they vanish", carnot_pass_layout,
     false, false},
    {"constant_folding", "folds the constants that the layout moved", carnot_pass_constant_folding,
     false, false},
    {"simplify_attention_mask", "keeps masks at the size of their operands",
     carnot_pass_simplify_attention_mask, false, false},
    {"simplify_attention", "writes masks as terms, moves biases of heads to their projections",
     carnot_pass_simplify_attention, false, false},
    {"constant_folding", "folds the biases that moved", carnot_pass_constant_folding, false, false},
    {"promote_half_to_f32", "computes FP16 and BF16 networks in FP32",
     carnot_pass_promote_half_to_f32, true, true},
    {"cse", "merges equal nodes", carnot_pass_cse, false, false},
    {"fuse_activations", "recognises GELU, SiLU, hard-swish and others",
     carnot_pass_fuse_activations, false, false},
    {"fuse_norms", "recognises layer and RMS normalization", carnot_pass_fuse_norms, false, false},
    {"fuse_group_norm", "recognises group normalization written as instance normalization",
     carnot_pass_fuse_group_norm, false, false},
    {"constant_folding", "folds the scales of group normalization", carnot_pass_constant_folding,
     false, false},
    {"roll_steps", "computes all steps of an unrolled loop at once", carnot_pass_roll_steps, false,
     false},
    {"hoist_slices", "moves slices and gathers of a result up to the operands",
     carnot_pass_hoist_slices, false, false},
    {"fold_pads", "makes zeros around pixels the padding of the convolution behind them",
     carnot_pass_fold_pads, false, false},
    {"fold_crops", "makes crops the padding of the transposed convolution before them",
     carnot_pass_fold_crops, false, false},
    {"fold_batch_norm", "folds batch normalization into convolution weights",
     carnot_pass_fold_batch_norm, false, false},
    {"merge_convolutions", "makes one convolution of a sum of those that read the same input",
     carnot_pass_merge_convolutions, false, false},
    {"equalize", "makes the channels of tensors alike before they are quantized",
     carnot_pass_equalize, false, false},
    {"insert_qdq", "quantizes layers whose tensors have ranges", carnot_pass_insert_qdq, true,
     false},
    {"quantize", "moves what other passes quantized", carnot_pass_quantize, false, false},
    {"trim_convolutions", "leaves out taps of convolutions that read nothing but padding",
     carnot_pass_trim_convolutions, false, false},
    {"decompose_conv_transpose",
     "writes transposed convolution as convolution and shuffle on an accelerator",
     carnot_pass_decompose_conv_transpose, false, false},
    {"pad_channels", "pads channels between convolutions to multiples of eight for half precision",
     carnot_pass_pad_channels, false, false},
    {"constant_folding", "folds the weights of padded and transposed convolutions",
     carnot_pass_constant_folding, false, false},
    {"fuse_quantized_attention", "recognises attention between 8-bit integers on an accelerator",
     carnot_pass_fuse_quantized_attention, false, false},
    {"convert_to_mixed_precision", "stores FP32 layers as FP16 or BF16 on an accelerator",
     carnot_pass_convert_to_mixed_precision, true, false},
    {"fuse_cross_covariance", "recognises attention between channels",
     carnot_pass_fuse_cross_covariance, false, false},
    {"fuse_rotary", "recognises the rotary embedding of heads", carnot_pass_fuse_rotary, false,
     true},
    {"compose_attention", "recognises attention over caches and shared heads",
     carnot_pass_compose_attention, false, true},
    {"fuse_qkv_projections", "joins query, key and value projections into one GEMM",
     carnot_pass_fuse_qkv_projections, false, false},
    {"fuse_packed_rotary", "rotates the heads of a packed projection by one kernel",
     carnot_pass_fuse_packed_rotary, false, false},
    {"channels_last_heads", "splits heads from channels that are last",
     carnot_pass_channels_last_heads, false, false},
    {"fuse_attention", "recognises scaled dot-product attention", carnot_pass_fuse_attention, false,
     false},
    {"fuse_cached_attention", "fuses Attention with cache, rotary embedding and heads",
     carnot_pass_fuse_cached_attention, false, false},
    {"expand_powers", "writes second and third powers as products", carnot_pass_expand_powers,
     false, true},
    {"sink_reshapes", "moves reshapes of GEMM results below element-wise readers",
     carnot_pass_sink_reshapes, false, false},
    {"fold_expanded_indices", "reads and writes rows where indices are the same for all of a row",
     carnot_pass_fold_expanded_indices, false, false},
    {"apply_layer_precision", "rounds where layers were asked to compute in FP16 or BF16",
     carnot_pass_apply_layer_precision, true, false},
    {"constant_folding", "folds the constants that other passes wrote",
     carnot_pass_constant_folding, false, false},
    {"dce", "removes nodes that nothing reads", carnot_pass_dce, false, false},
    {"join_transposes", "writes a chain of transposes and reshapes as one transpose of rows",
     carnot_pass_join_transposes, false, false},
    {"fuse_rearrangements", "makes copies that shift, cut and reorder one tensor a single gather",
     carnot_pass_fuse_rearrangements, false, false},
    {"join_slices", "writes slices that cut a tensor into parts as one split",
     carnot_pass_join_slices, false, false},
    {"nest_concats", "writes longer lists of parts as a list and what follows it",
     carnot_pass_nest_concats, false, false},
    {"fuse_squeeze_excite", "fuses squeeze-and-excitation blocks", carnot_pass_fuse_squeeze_excite,
     false, false},
    {"fuse_conv_chains", "fuses depthwise convolutions with the 1x1 convolutions around them",
     carnot_pass_fuse_conv_chains, false, true},
    {"form_fusion_regions", "fuses anchors with their epilogues, and pointwise chains",
     carnot_pass_form_fusion_regions, false, false},
};

const carnot_pass_row* carnot_passes(size_t* out_count) {
  *out_count = sizeof(kPasses) / sizeof(kPasses[0]);
  return kPasses;
}

static bool is_disabled(const carnot_pass_options* options, const char* name) {
  for (size_t i = 0; i < options->disabled_count; i++)
    if (strcmp(options->disabled[i], name) == 0) return true;
  return false;
}

carnot_status* carnot_passes_run(carnot_graph* graph, const carnot_pass_options* options) {
  for (size_t i = 0; i < sizeof(kPasses) / sizeof(kPasses[0]); i++) {
    const carnot_pass_row* pass = &kPasses[i];
    if ((options->none && !pass->always) || is_disabled(options, pass->name)) continue;
    if (pass->cpu_only && options->device) continue;
    CARNOT_TRY_AT(pass->run(graph, options), "pass %s", pass->name);
#ifndef NDEBUG
    CARNOT_TRY_AT(carnot_graph_verify(graph), "after pass %s", pass->name);
#endif
    if (options->dump &&
        (strcmp(options->dump, "all") == 0 || strcmp(options->dump, pass->name) == 0)) {
      fprintf(stderr, "---- after pass %s ----\n", pass->name);
      carnot_graph_print(graph, stderr);
    }
  }
  return NULL;
}
