#include <stdio.h>

#include "pass/pass.h"

static const carnot_pass_row kPasses[] = {
    {"unfold", "writes plain attention operators as products and a softmax", carnot_pass_unfold,
     false, false},
    {"einsum", "writes sums of products as transposes and products", carnot_pass_einsum, false,
     false},
    {"fold", "computes what depends on constants alone", carnot_pass_fold, false, false},
    {"shapes", "turns shape arithmetic into constants", carnot_pass_shapes, false, false},
    {"simplify", "removes what changes nothing, joins transposes and reshapes",
     carnot_pass_simplify, false, false},
    {"masks", "keeps masks as small as what they are made of", carnot_pass_masks, false, false},
    {"widen", "computes half-precision networks in float32", carnot_pass_widen, true, true},
    {"common", "computes equal things once", carnot_pass_common, false, false},
    {"activations", "recognises GELU, SiLU, hard-swish and the like", carnot_pass_activations,
     false, false},
    {"norms", "recognises layer and RMS normalization", carnot_pass_norms, false, false},
    {"rows", "leaves out rows of products that nobody reads", carnot_pass_rows, false, false},
    {"conv_scale", "folds batch normalization and channel scales into weights",
     carnot_pass_conv_scale, false, false},
    {"narrow", "stores halves where an accelerator's layers may", carnot_pass_narrow, true, false},
    {"siblings", "joins the projections of queries, keys and values", carnot_pass_siblings, false,
     false},
    {"attention", "recognises scaled dot-product attention", carnot_pass_attention, false, false},
    {"sink", "shapes products' results after what is done to each number", carnot_pass_sink, false,
     false},
    {"precision", "rounds where layers were asked to compute in half types", carnot_pass_precision,
     true, false},
    {"fold", "computes what depends on constants alone, again", carnot_pass_fold, false, false},
    {"dead", "removes what nobody reads", carnot_pass_dead, false, false},
    {"squeeze", "joins squeeze and excitation", carnot_pass_squeeze, false, false},
    {"regions", "fuses anchors with their epilogues, and pointwise chains", carnot_pass_regions,
     false, false},
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
