// The epilogue of an anchor (GEMM, convolution, normalization): the one matcher, for every backend,
// of the pointwise nodes behind it.
//   y = activation(anchor + bias[channel] + residual), and then the rest of the region
// What a kernel applies to its accumulators is the epilogue; the nodes that it leaves are the rest,
// which a backend runs as a pointwise program (CPU) or a generated kernel (CUDA).
#ifndef CARNOT_TACTIC_PROBLEM_EPILOGUE_H_
#define CARNOT_TACTIC_PROBLEM_EPILOGUE_H_

#include "tactic/tactic.h"

// The activations that a kernel may apply to its accumulators. X(NAME, FN) with FN of base/fn.def.
// A backend maps them to its kernels' own list by a table; SILU is SWISH with alpha 1.
#define CARNOT_FUSED_ACTIVATIONS(X) \
  X(RELU, RELU)                     \
  X(CLAMP, CLAMP)                   \
  X(LEAKY_RELU, LEAKY_RELU)         \
  X(SIGMOID, SIGMOID)               \
  X(SILU, SWISH)                    \
  X(HARD_SIGMOID, HARD_SIGMOID)     \
  X(HARD_SWISH, HARD_SWISH) X(TANH, TANH) X(GELU_ERF, GELU_ERF) X(GELU_TANH, GELU_TANH)
typedef enum carnot_fused_activation {
  CARNOT_FUSED_NONE,
#define CARNOT_FUSED_ENUM(NAME, FN) CARNOT_FUSED_##NAME,
  CARNOT_FUSED_ACTIVATIONS(CARNOT_FUSED_ENUM)
#undef CARNOT_FUSED_ENUM
      CARNOT_FUSED_COUNT
} carnot_fused_activation;
// The bit of an activation in carnot_epilogue_mask.
#define CARNOT_FUSED_BIT(NAME) (1u << CARNOT_FUSED_##NAME)

// An activation with its parameters: attributes alpha and beta of the node.
typedef struct carnot_epilogue_activation {
  carnot_fused_activation kind;
  float a, b;
} carnot_epilogue_activation;
// The activation that |node| computes; kind NONE when |node| is not in the list.
carnot_epilogue_activation carnot_epilogue_activation_of(const carnot_plan_node* node);

// How many constants of one number per channel the kernel adds.
typedef enum carnot_epilogue_biases {
  CARNOT_EPILOGUE_NO_BIAS,
  CARNOT_EPILOGUE_ONE_BIAS,    // a channel vector, added before the residual
  CARNOT_EPILOGUE_SUM_BIASES,  // known channel vectors and scalars, which the tactic sums at build
} carnot_epilogue_biases;

// What a tactic's kernel can apply.
typedef struct carnot_epilogue_mask {
  carnot_epilogue_biases biases;
  bool residual;
  // Bit set of carnot_fused_activation. The bit of RELU also admits CLAMP to [0, infinity].
  uint32_t activations;
} carnot_epilogue_mask;

// What is known of an input, at build from its descriptor or at run time from the operand. Bit set.
enum {
  CARNOT_FACT_FULL = 1,     // the dimensions of the result, at every shape of the profile
  CARNOT_FACT_CHANNEL = 2,  // one number per channel, constant at build
  CARNOT_FACT_SCALAR = 4,   // one number, constant at build
  CARNOT_FACT_KNOWN = 8     // its elements are available at build
};
typedef uint8_t carnot_operand_facts;

enum { CARNOT_EPILOGUE_MAX_INPUTS = 64, CARNOT_EPILOGUE_MAX_BIASES = 24 };

// Fills |facts| (of CARNOT_EPILOGUE_MAX_INPUTS) for the problem's inputs. Inputs of another type
// than |dtype| have no facts. |channel_axis|: the axis of output 0 that a channel vector runs
// along, from the end (1 is the last); |channels|: its size. NULL, or why the problem cannot be
// matched.
const char* carnot_epilogue_facts_of_problem(const carnot_problem* problem, carnot_dtype dtype,
                                             int channel_axis, int64_t channels,
                                             carnot_operand_facts* facts);
// The same at run time, from |count| operands and the result |y|. Which operands are constants is
// unknown then: a channel vector is never FULL.
carnot_status* carnot_epilogue_facts_of_operands(const carnot_operand* inputs, uint32_t count,
                                                 const carnot_operand* y, int channel_axis,
                                                 int64_t channels,
                                                 carnot_operand_facts* facts) CARNOT_MUST_USE;

typedef struct carnot_epilogue {
  uint32_t bias_count;
  uint32_t biases[CARNOT_EPILOGUE_MAX_BIASES];  // inputs, in the order of their additions
  uint32_t residual;                            // input of the result's dimensions; NONE
  carnot_epilogue_activation activation;
  uint32_t rest;  // first node that the kernel does not apply; node_count: none
  uint32_t acc;   // local value that enters the rest: the result of the last node that it applies
} carnot_epilogue;

// The only bias, of an epilogue matched with ONE_BIAS; NONE without one.
static inline uint32_t carnot_epilogue_bias(const carnot_epilogue* epilogue) {
  return epilogue->bias_count ? epilogue->biases[0] : CARNOT_PLAN_NONE;
}

// Matches the nodes behind node |anchor| of |region| with what |mask| can take. |bias|: an input
// that the anchor itself adds as its bias (biases[0] then), or NONE. |facts|: of the |input_count|
// inputs of the step. Additions come first, then one activation; the first node that does not fit
// begins the rest. Cannot fail.
void carnot_epilogue_match(const carnot_region* region, uint32_t anchor, uint32_t bias,
                           const carnot_operand_facts* facts, uint32_t input_count,
                           const carnot_epilogue_mask* mask, carnot_epilogue* out);

#endif  // CARNOT_TACTIC_PROBLEM_EPILOGUE_H_
