// Lists of nodes from which passes fuse regions of several convolutions.
#ifndef CARNOT_PASS_CONV_NODES_H_
#define CARNOT_PASS_CONV_NODES_H_

#include "pass/pass.h"

enum { CARNOT_CONV_NODES_MAX = 24 };

// Nodes of one block, of which each reads the one before.
typedef struct carnot_conv_nodes {
  carnot_node* nodes[CARNOT_CONV_NODES_MAX];
  int count;
} carnot_conv_nodes;

// A convolution in float32.
bool carnot_is_f32_conv(const carnot_node* node);
// A convolution of several groups.
bool carnot_is_grouped_conv(const carnot_node* conv);
// Adds the element-wise nodes behind the list as long as they keep its dimensions; with |unary|
// those of one operand alone.
void carnot_conv_nodes_add_epilogue(carnot_conv_nodes* c, bool unary);
// Adds the convolution that alone reads the list, where it is grouped or is not, as |grouped| says.
bool carnot_conv_nodes_add_conv(carnot_conv_nodes* c, bool grouped);
// Fuses the longest beginning of |c| of more than |least| nodes that a kernel of the CPU takes.
// Where BF16 is allowed the kernel computes in BF16: several convolutions at once in float32 are
// slower than single ones in BF16. *out_region is left as it is where there is none.
carnot_status* carnot_conv_nodes_fuse_longest(const carnot_pass_options* options,
                                              carnot_conv_nodes* c, int least,
                                              carnot_node** out_region) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_CONV_NODES_H_
