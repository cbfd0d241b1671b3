// Building networks layer by layer.
//
// A carnot_value is a tensor of the network: an input, a constant or an output of a layer. Layers
// infer shapes as they are added, so that errors are returned at once and name the layer. Values
// and layers belong to the network. Binary layers broadcast as NumPy does. Optional values may be
// NULL. Names and lists are copied; data of constants is borrowed until the last build. One thread
// at a time a network. Errors: INVALID_ARGUMENT for enums out of range, INVALID_MODEL where types
// or shapes do not fit, with the layer and what was found.
#ifndef CARNOT_NETWORK_H_
#define CARNOT_NETWORK_H_

#include "carnot/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct carnot_network carnot_network;
typedef struct carnot_value carnot_value;
typedef struct carnot_node carnot_layer;

// ---- the network ----

// An empty network; the caller destroys it.
CARNOT_API carnot_status* carnot_network_create(carnot_network** out_network) CARNOT_MUST_USE;
// Frees the network with its values and layers. NULL is allowed.
CARNOT_API void carnot_network_destroy(carnot_network* network);
// The name that engines carry.
CARNOT_API carnot_status* carnot_network_set_name(carnot_network* network,
                                                  const char* name) CARNOT_MUST_USE;
// An input. -1 in |dims|: a dynamic dimension, which each run may set; |dim_names| (NULL, or an
// array with NULL entries) names dynamic dimensions, and equal names are equal dimensions.
CARNOT_API carnot_status* carnot_network_add_input(carnot_network* network, const char* name,
                                                   carnot_dtype dtype, const carnot_dims* dims,
                                                   const char* const* dim_names,
                                                   carnot_value** out_value) CARNOT_MUST_USE;
// Makes |value| an output under |name| (NULL: its own).
CARNOT_API carnot_status* carnot_network_mark_output(carnot_network* network, carnot_value* value,
                                                     const char* name) CARNOT_MUST_USE;
// The number of inputs.
CARNOT_API size_t carnot_network_input_count(const carnot_network* network);
// The number of outputs.
CARNOT_API size_t carnot_network_output_count(const carnot_network* network);
// NULL past the last.
CARNOT_API carnot_value* carnot_network_input(const carnot_network* network, size_t index);
// Output |index| in the order of marking; NULL past the last.
CARNOT_API carnot_value* carnot_network_output(const carnot_network* network, size_t index);
// Layers of the main part, in order: first, then next until NULL.
CARNOT_API carnot_layer* carnot_network_first_layer(const carnot_network* network);
// The layer after |layer|; NULL after the last.
CARNOT_API carnot_layer* carnot_layer_next(const carnot_layer* layer);

// The name of |value|; never NULL.
CARNOT_API const char* carnot_value_name(const carnot_value* value);
// Renames |value|. INVALID_ARGUMENT for an empty name.
CARNOT_API carnot_status* carnot_value_set_name(carnot_value* value,
                                                const char* name) CARNOT_MUST_USE;
// The data type of the elements.
CARNOT_API carnot_dtype carnot_value_dtype(const carnot_value* value);
// -1 for dimensions not known; rank -1 where that is not known.
CARNOT_API carnot_dims carnot_value_dims(const carnot_value* value);
// The layer that computes |value|; NULL for inputs and constants.
CARNOT_API carnot_layer* carnot_value_layer(const carnot_value* value);
// The name of |layer|; "" where it has none.
CARNOT_API const char* carnot_layer_name(const carnot_layer* layer);
// Renames |layer|. INVALID_ARGUMENT for an empty name.
CARNOT_API carnot_status* carnot_layer_set_name(carnot_layer* layer,
                                                const char* name) CARNOT_MUST_USE;
// "CONVOLUTION", …: TensorRT's name of the layer type.
CARNOT_API const char* carnot_layer_type(const carnot_layer* layer);
// The number of inputs, absent optional ones before the last included.
CARNOT_API int carnot_layer_input_count(const carnot_layer* layer);
// The number of outputs, absent optional ones included.
CARNOT_API int carnot_layer_output_count(const carnot_layer* layer);
// NULL for absent ones and past the last.
CARNOT_API carnot_value* carnot_layer_input(const carnot_layer* layer, int index);
// Output |index|; NULL for absent ones and past the last.
CARNOT_API carnot_value* carnot_layer_output(const carnot_layer* layer, int index);

// ---- constants ----

// |name| (may be NULL) is its name for refit. |data| is borrowed, dense and row-major.
CARNOT_API carnot_status* carnot_network_add_constant(carnot_network* network, const char* name,
                                                      carnot_dtype dtype, const carnot_dims* dims,
                                                      const void* data,
                                                      carnot_value** out_value) CARNOT_MUST_USE;
// A list of int64 [count], copied; count -1: a scalar, the first.
CARNOT_API carnot_status* carnot_network_add_int64s(carnot_network* network, const int64_t* values,
                                                    int count,
                                                    carnot_value** out_value) CARNOT_MUST_USE;
// A scalar of a floating type.
CARNOT_API carnot_status* carnot_network_add_scalar(carnot_network* network, carnot_dtype dtype,
                                                    double number,
                                                    carnot_value** out_value) CARNOT_MUST_USE;

// ---- element-wise ----

// X(NAME, function): y = f(x), as named in ONNX. |alpha| and |beta| serve those that take them.
// clang-format off
#define CARNOT_ACTIVATIONS(X)                                                                 \
  X(RELU, RELU)                                                                               \
  X(SIGMOID, SIGMOID)                                                                         \
  X(TANH, TANH)                                                                               \
  X(LEAKY_RELU, LEAKY_RELU)                                                                   \
  X(ELU, ELU) X(SELU, SELU) X(SOFTSIGN, SOFTSIGN) X(SOFTPLUS, SOFTPLUS) X(CLIP, CLAMP)        \
      X(HARD_SIGMOID, HARD_SIGMOID) X(SCALED_TANH, SCALED_TANH)                               \
          X(THRESHOLDED_RELU, THRESHOLDED_RELU) X(GELU_ERF, GELU_ERF) X(GELU_TANH, GELU_TANH) \
              X(SWISH, SWISH) X(HARD_SWISH, HARD_SWISH) X(MISH, MISH) X(CELU, CELU)
// clang-format on
typedef enum carnot_activation {
#define CARNOT_ACTIVATION_ENUM(NAME, FN) CARNOT_ACTIVATION_TYPE_##NAME,
  CARNOT_ACTIVATIONS(CARNOT_ACTIVATION_ENUM)
#undef CARNOT_ACTIVATION_ENUM
} carnot_activation;
// y = f(input), element by element. |alpha| and |beta| are the parameters of the functions that
// have them, without defaults. Source: ONNX operators of the same names.
CARNOT_API carnot_status* carnot_network_add_activation(carnot_network* network,
                                                        carnot_value* input, carnot_activation type,
                                                        double alpha, double beta,
                                                        carnot_value** out_value) CARNOT_MUST_USE;

// clang-format off
#define CARNOT_ELEMENTWISES(X)                                                                  \
  X(SUM, ADD)                                                                                   \
  X(PROD, MUL)                                                                                  \
  X(MAX, MAX)                                                                                   \
  X(MIN, MIN)                                                                                   \
  X(SUB, SUB) X(DIV, DIV) X(POW, POW) X(FLOOR_DIV, FLOOR_DIV) X(AND, AND) X(OR, OR) X(XOR, XOR) \
      X(EQUAL, EQUAL) X(GREATER, GREATER) X(LESS, LESS) X(GREATER_EQUAL, GREATER_EQUAL)         \
          X(LESS_EQUAL, LESS_EQUAL) X(MOD, MOD)
// clang-format on
typedef enum carnot_elementwise {
#define CARNOT_ELEMENTWISE_ENUM(NAME, FN) CARNOT_ELEMENTWISE_##NAME,
  CARNOT_ELEMENTWISES(CARNOT_ELEMENTWISE_ENUM)
#undef CARNOT_ELEMENTWISE_ENUM
} carnot_elementwise;
// y = f(a, b), element by element with broadcasting. Comparisons give bool.
CARNOT_API carnot_status* carnot_network_add_elementwise(carnot_network* network, carnot_value* a,
                                                         carnot_value* b, carnot_elementwise type,
                                                         carnot_value** out_value) CARNOT_MUST_USE;

// clang-format off
#define CARNOT_UNARIES(X)                                                                       \
  X(EXP, EXP)                                                                                   \
  X(LOG, LOG)                                                                                   \
  X(SQRT, SQRT)                                                                                 \
  X(RECIP, RECIP)                                                                               \
  X(ABS, ABS) X(NEG, NEG) X(SIN, SIN) X(COS, COS) X(TAN, TAN) X(SINH, SINH) X(COSH, COSH)       \
      X(ASIN, ASIN) X(ACOS, ACOS) X(ATAN, ATAN) X(ASINH, ASINH) X(ACOSH, ACOSH) X(ATANH, ATANH) \
          X(CEIL, CEIL) X(FLOOR, FLOOR) X(ERF, ERF) X(NOT, NOT) X(SIGN, SIGN) X(ROUND, ROUND)   \
              X(IS_INF, IS_INF) X(IS_NAN, IS_NAN)
// clang-format on
typedef enum carnot_unary {
#define CARNOT_UNARY_ENUM(NAME, FN) CARNOT_UNARY_##NAME,
  CARNOT_UNARIES(CARNOT_UNARY_ENUM)
#undef CARNOT_UNARY_ENUM
} carnot_unary;
// y = f(input), element by element. IS_INF, IS_NAN and NOT give bool.
CARNOT_API carnot_status* carnot_network_add_unary(carnot_network* network, carnot_value* input,
                                                   carnot_unary type,
                                                   carnot_value** out_value) CARNOT_MUST_USE;
// x < 0 ? x * slope : x; |slope| broadcasts.
CARNOT_API carnot_status* carnot_network_add_parametric_relu(
    carnot_network* network, carnot_value* input, carnot_value* slope,
    carnot_value** out_value) CARNOT_MUST_USE;
// condition ? a : b, broadcast; |condition| is bool.
CARNOT_API carnot_status* carnot_network_add_select(carnot_network* network,
                                                    carnot_value* condition, carnot_value* a,
                                                    carnot_value* b,
                                                    carnot_value** out_value) CARNOT_MUST_USE;
// (x * scale + shift) ^ power. Each may be NULL; [C] lists are
// aligned with |channel_axis|, others broadcast as they are.
CARNOT_API carnot_status* carnot_network_add_scale(carnot_network* network, carnot_value* input,
                                                   int channel_axis, carnot_value* shift,
                                                   carnot_value* scale, carnot_value* power,
                                                   carnot_value** out_value) CARNOT_MUST_USE;
// y = input; a copy under another name.
CARNOT_API carnot_status* carnot_network_add_identity(carnot_network* network, carnot_value* input,
                                                      carnot_value** out_value) CARNOT_MUST_USE;
// |input| converted to type |to|. Source: ONNX Cast.
CARNOT_API carnot_status* carnot_network_add_cast(carnot_network* network, carnot_value* input,
                                                  carnot_dtype to,
                                                  carnot_value** out_value) CARNOT_MUST_USE;

// ---- windows ----

typedef enum carnot_padding_mode {
  CARNOT_PADDING_EXPLICIT_ROUND_DOWN,
  CARNOT_PADDING_EXPLICIT_ROUND_UP,  // pooling only
  CARNOT_PADDING_SAME_UPPER,
  CARNOT_PADDING_SAME_LOWER,
} carnot_padding_mode;

// A sliding window over the spatial dimensions, 1 to 3 of them. Zeros in stride and dilation
// mean 1.
typedef struct carnot_window {
  int32_t rank;
  int64_t kernel[3];  // pooling; convolutions take it from the weights
  int64_t stride[3], dilation[3], pre_padding[3], post_padding[3];
  carnot_padding_mode mode;
} carnot_window;

// |input| [N,C,D..], |weights| [K,C/groups,R..], |bias| [K] or NULL → [N,K,O..].
CARNOT_API carnot_status* carnot_network_add_convolution(carnot_network* network,
                                                         carnot_value* input, carnot_value* weights,
                                                         carnot_value* bias, int64_t groups,
                                                         const carnot_window* window,
                                                         carnot_value** out_value) CARNOT_MUST_USE;
// The transposed convolution: |weights| [C,K/groups,R..].
CARNOT_API carnot_status* carnot_network_add_deconvolution(
    carnot_network* network, carnot_value* input, carnot_value* weights, carnot_value* bias,
    int64_t groups, const carnot_window* window, carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_pooling {
  CARNOT_POOLING_MAX,
  CARNOT_POOLING_AVERAGE,
  CARNOT_POOLING_MAX_AVERAGE_BLEND
} carnot_pooling;
// |exclude_padding|: averages divide by the elements inside the input. |blend|: blend * average +
// (1 - blend) * max.
CARNOT_API carnot_status* carnot_network_add_pooling(carnot_network* network, carnot_value* input,
                                                     carnot_pooling type,
                                                     const carnot_window* window,
                                                     bool exclude_padding, double blend,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// x / (k + alpha / window * sum of squares over |window| channels) ^ beta.
CARNOT_API carnot_status* carnot_network_add_lrn(carnot_network* network, carnot_value* input,
                                                 int64_t window, double alpha, double beta,
                                                 double k,
                                                 carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_pad_mode {
  CARNOT_PAD_CONSTANT,
  CARNOT_PAD_EDGE,
  CARNOT_PAD_REFLECT,
  CARNOT_PAD_WRAP
} carnot_pad_mode;
// |pre| and |post| [rank] elements before and after each dimension; negative ones crop.
CARNOT_API carnot_status* carnot_network_add_padding(carnot_network* network, carnot_value* input,
                                                     const int64_t* pre, const int64_t* post,
                                                     carnot_pad_mode mode, double fill,
                                                     carnot_value** out_value) CARNOT_MUST_USE;

// ---- matrix multiplication and normalization ----

typedef enum carnot_matrix_op {
  CARNOT_MATRIX_NONE,
  CARNOT_MATRIX_TRANSPOSE,
  CARNOT_MATRIX_VECTOR
} carnot_matrix_op;
// a * b over the last two dimensions, the others broadcast; VECTOR: the operand has no second one.
CARNOT_API carnot_status* carnot_network_add_matrix_multiply(
    carnot_network* network, carnot_value* a, carnot_matrix_op op_a, carnot_value* b,
    carnot_matrix_op op_b, carnot_value** out_value) CARNOT_MUST_USE;
// |input| [N,C,H,W], |weights| [K,C*H*W], |bias| [K] or NULL → [N,K,1,1].
CARNOT_API carnot_status* carnot_network_add_fully_connected(
    carnot_network* network, carnot_value* input, carnot_value* weights, carnot_value* bias,
    carnot_value** out_value) CARNOT_MUST_USE;
// The sum of products that |equation| describes ("bij,bjk->bik") over |inputs| [count]. Source:
// ONNX Einsum-12.
CARNOT_API carnot_status* carnot_network_add_einsum(carnot_network* network, const char* equation,
                                                    carnot_value* const* inputs, int count,
                                                    carnot_value** out_value) CARNOT_MUST_USE;
// exp(x - max) / sum(exp(x - max)) along |axis|. Source: ONNX Softmax-13.
CARNOT_API carnot_status* carnot_network_add_softmax(carnot_network* network, carnot_value* input,
                                                     int axis,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// Softmax of the first |bounds| elements of each row, 0 behind. |input| [Z,S,C], |bounds| [Z,S,1]
// integers.
CARNOT_API carnot_status* carnot_network_add_ragged_softmax(
    carnot_network* network, carnot_value* input, carnot_value* bounds,
    carnot_value** out_value) CARNOT_MUST_USE;
// (x - mean) / sqrt(variance + epsilon) * scale + bias over |axes|. With groups > 1 over the
// channels of each group and all that follow; |axes| is not read then, scale and bias are [C] or
// [1,C,1..].
CARNOT_API carnot_status* carnot_network_add_normalization(
    carnot_network* network, carnot_value* input, carnot_value* scale, carnot_value* bias,
    const int64_t* axes, int axis_count, int64_t groups, double epsilon,
    carnot_value** out_value) CARNOT_MUST_USE;
typedef struct carnot_attention_config {
  bool causal;     // row i sees columns up to i
  double scale;    // 0: 1 / sqrt(head size)
  double softcap;  // 0: none
} carnot_attention_config;
// softmax(q * k^T * scale + mask) * v. |q| [B,H,S,D], |k| [B,G,T,D], |v| [B,G,T,E], H a multiple of
// G; |mask| bool (true stays) or added, broadcast to [B,H,S,T], or NULL → [B,H,S,E].
CARNOT_API carnot_status* carnot_network_add_attention(carnot_network* network, carnot_value* q,
                                                       carnot_value* k, carnot_value* v,
                                                       carnot_value* mask,
                                                       const carnot_attention_config* config,
                                                       carnot_value** out_value) CARNOT_MUST_USE;
// Rotates pairs of |input| [B,H,T,D] by |cosine|, |sine| [P,R/2] at |positions| [B,T] (NULL: caches
// [B,T,R/2]); the first |rotated| elements (0: all) of a head.
CARNOT_API carnot_status* carnot_network_add_rotary_embedding(
    carnot_network* network, carnot_value* input, carnot_value* cosine, carnot_value* sine,
    carnot_value* positions, bool interleaved, int64_t rotated,
    carnot_value** out_value) CARNOT_MUST_USE;
// |cache| [B,H,S,D] with |update| [B,H,T,D] written at |indices| [B] of dimension 2.
CARNOT_API carnot_status* carnot_network_add_kv_cache_update(
    carnot_network* network, carnot_value* cache, carnot_value* update, carnot_value* indices,
    carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_moe_activation { CARNOT_MOE_NONE, CARNOT_MOE_SILU } carnot_moe_activation;
typedef struct carnot_moe_config {
  carnot_moe_activation activation;
  double limit, alpha, beta;                // of SILU; INFINITY: no limit
  carnot_value *gate_weights, *up_weights;  // [experts, H, I]
  carnot_value* down_weights;               // [experts, I, H]
  carnot_value *gate_bias, *up_bias;        // [experts, I] or NULL
  carnot_value* down_bias;                  // [experts, H] or NULL
} carnot_moe_config;
// Mixture of experts: y[t] = sum over the selected experts e of token t of
// score[t,e] * ((act(x * gate_e) . (x * up_e)) * down_e), biases added. With SILU, gate and up are
// clamped to |limit| (gate from above only), act(g) = g * sigmoid(alpha * g), and |beta| is added
// to up. |hidden| [B,S,H], |selected| integers and |scores| [B,S,K] -> [B,S,H]. The number of
// experts must be known. Source: TensorRT IMoELayer.
CARNOT_API carnot_status* carnot_network_add_moe(carnot_network* network, carnot_value* hidden,
                                                 carnot_value* selected, carnot_value* scores,
                                                 const carnot_moe_config* config,
                                                 carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_rnn {
  CARNOT_RNN_RELU,
  CARNOT_RNN_TANH,
  CARNOT_RNN_LSTM,
  CARNOT_RNN_GRU
} carnot_rnn;
typedef struct carnot_rnn_config {
  carnot_rnn type;
  int64_t hidden;
  bool bidirectional;
  carnot_value *lengths, *initial_hidden, *initial_cell;  // NULL: full length, zeros
} carnot_rnn_config;
// |input| [T,B,I], |weights| [D,G*H,I], |recurrence| [D,G*H,H], |bias| [D,2*G*H] or NULL; gates in
// ONNX's order. Outputs: all steps [T,D,B,H], last hidden [D,B,H], last cell (LSTM; else NULL). The
// pointers may be NULL.
CARNOT_API carnot_status* carnot_network_add_rnn(
    carnot_network* network, carnot_value* input, carnot_value* weights, carnot_value* recurrence,
    carnot_value* bias, const carnot_rnn_config* config, carnot_value** out_steps,
    carnot_value** out_hidden, carnot_value** out_cell) CARNOT_MUST_USE;

// ---- reduction ----

typedef enum carnot_reduction {
  CARNOT_REDUCE_SUM,
  CARNOT_REDUCE_PROD,
  CARNOT_REDUCE_MAX,
  CARNOT_REDUCE_MIN,
  CARNOT_REDUCE_AVG,
} carnot_reduction;
// Reduces |axes| [axis_count] to one element each, which |keep_dims| keeps as dimensions of size 1.
CARNOT_API carnot_status* carnot_network_add_reduce(carnot_network* network, carnot_value* input,
                                                    carnot_reduction type, const int64_t* axes,
                                                    int axis_count, bool keep_dims,
                                                    carnot_value** out_value) CARNOT_MUST_USE;
// The |k| (int64 [1]) largest or smallest elements along |axis|, sorted, and their indices (int64).
CARNOT_API carnot_status* carnot_network_add_topk(carnot_network* network, carnot_value* input,
                                                  carnot_value* k, int axis, bool largest,
                                                  carnot_value** out_values,
                                                  carnot_value** out_indices) CARNOT_MUST_USE;
// Running sums along |axis|.
CARNOT_API carnot_status* carnot_network_add_cumulative(carnot_network* network,
                                                        carnot_value* input, int axis,
                                                        bool exclusive, bool reverse,
                                                        carnot_value** out_value) CARNOT_MUST_USE;

// ---- shape and data movement ----

// The dimensions of |input|: int64 [rank]. Source: ONNX Shape.
CARNOT_API carnot_status* carnot_network_add_shape(carnot_network* network, carnot_value* input,
                                                   carnot_value** out_value) CARNOT_MUST_USE;
// Transpose by |first|, reshape to |dims| (int64; 0 copies, -1 is inferred), transpose by |second|;
// each may be NULL.
CARNOT_API carnot_status* carnot_network_add_shuffle(carnot_network* network, carnot_value* input,
                                                     const int64_t* first, carnot_value* dims,
                                                     const int64_t* second,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// Removes the dimensions |axes| [axis_count], which must be 1; none listed: all of size 1.
CARNOT_API carnot_status* carnot_network_add_squeeze(carnot_network* network, carnot_value* input,
                                                     const int64_t* axes, int axis_count,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// Inserts dimensions of size 1, so that they are |axes| [axis_count] of the result.
CARNOT_API carnot_status* carnot_network_add_unsqueeze(carnot_network* network, carnot_value* input,
                                                       const int64_t* axes, int axis_count,
                                                       carnot_value** out_value) CARNOT_MUST_USE;
// |inputs| [count] joined along |axis|; the other dimensions must be equal.
CARNOT_API carnot_status* carnot_network_add_concatenation(
    carnot_network* network, carnot_value* const* inputs, int count, int axis,
    carnot_value** out_value) CARNOT_MUST_USE;
// |start|, |size|, |stride| [rank]: y[i] = x[start + i * stride]; stride may be negative.
CARNOT_API carnot_status* carnot_network_add_slice(carnot_network* network, carnot_value* input,
                                                   const int64_t* start, const int64_t* size,
                                                   const int64_t* stride,
                                                   carnot_value** out_value) CARNOT_MUST_USE;
// The same with arguments from values, and ends instead of sizes: |ends|, |axes| and |steps| as
// ONNX Slice; the last two may be NULL.
CARNOT_API carnot_status* carnot_network_add_slice_dynamic(
    carnot_network* network, carnot_value* input, carnot_value* starts, carnot_value* ends,
    carnot_value* axes, carnot_value* steps, carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_gather_mode {
  CARNOT_GATHER_DEFAULT,
  CARNOT_GATHER_ELEMENT,
  CARNOT_GATHER_ND
} carnot_gather_mode;
// |batch_dims| leading dimensions of both operands are paired (ND only; 0 elsewhere).
CARNOT_API carnot_status* carnot_network_add_gather(carnot_network* network, carnot_value* input,
                                                    carnot_value* indices, carnot_gather_mode mode,
                                                    int axis, int batch_dims,
                                                    carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_scatter_mode { CARNOT_SCATTER_ELEMENT, CARNOT_SCATTER_ND } carnot_scatter_mode;
// |input| with |updates| at |indices|; of equal indices the last one wins.
CARNOT_API carnot_status* carnot_network_add_scatter(carnot_network* network, carnot_value* input,
                                                     carnot_value* indices, carnot_value* updates,
                                                     carnot_scatter_mode mode, int axis,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// |depth| int64 scalar, |values| [2]: off and on.
CARNOT_API carnot_status* carnot_network_add_one_hot(carnot_network* network, carnot_value* indices,
                                                     carnot_value* depth, carnot_value* values,
                                                     int axis,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// Coordinates [rank, count] (int64) of the elements that are not 0; count is known after the run.
CARNOT_API carnot_status* carnot_network_add_non_zero(carnot_network* network, carnot_value* input,
                                                      carnot_value** out_value) CARNOT_MUST_USE;
// The first lengths[b] steps of each sequence backwards; |lengths| int64 [B].
CARNOT_API carnot_status* carnot_network_add_reverse_sequence(
    carnot_network* network, carnot_value* input, carnot_value* lengths, int batch_axis,
    int sequence_axis, carnot_value** out_value) CARNOT_MUST_USE;

// ---- resampling and detection ----

typedef enum carnot_interpolation {
  CARNOT_INTERPOLATION_NEAREST,
  CARNOT_INTERPOLATION_LINEAR,
  CARNOT_INTERPOLATION_CUBIC
} carnot_interpolation;
typedef enum carnot_coordinates {
  CARNOT_COORDINATES_HALF_PIXEL,
  CARNOT_COORDINATES_ALIGN_CORNERS,
  CARNOT_COORDINATES_ASYMMETRIC,
  CARNOT_COORDINATES_HALF_PIXEL_SINGLE
} carnot_coordinates;
typedef enum carnot_rounding {
  CARNOT_ROUNDING_HALF_DOWN,
  CARNOT_ROUNDING_HALF_UP,
  CARNOT_ROUNDING_FLOOR,
  CARNOT_ROUNDING_CEIL
} carnot_rounding;
typedef struct carnot_resize_config {
  carnot_interpolation mode;
  carnot_coordinates
      coordinates;  // HALF_PIXEL_SINGLE: an output of one pixel takes the first (selector UPPER)
  carnot_rounding rounding;  // of nearest
  double cubic_coefficient;  // 0: -0.75
  bool exclude_outside;
} carnot_resize_config;
// To |sizes| (int64 [rank]) or by |scales| (float32 [rank]); exactly one of them.
CARNOT_API carnot_status* carnot_network_add_resize(carnot_network* network, carnot_value* input,
                                                    carnot_value* sizes, carnot_value* scales,
                                                    const carnot_resize_config* config,
                                                    carnot_value** out_value) CARNOT_MUST_USE;
typedef enum carnot_sample_mode {
  CARNOT_SAMPLE_FILL,
  CARNOT_SAMPLE_CLAMP,
  CARNOT_SAMPLE_REFLECT
} carnot_sample_mode;
// |input| [N,C,H,W] at |grid| [N,P,Q,2] in [-1,1] → [N,C,P,Q]; outside: 0, the edge, or mirrored.
CARNOT_API carnot_status* carnot_network_add_grid_sample(carnot_network* network,
                                                         carnot_value* input, carnot_value* grid,
                                                         carnot_interpolation interpolation,
                                                         bool align_corners,
                                                         carnot_sample_mode outside,
                                                         carnot_value** out_value) CARNOT_MUST_USE;
// |boxes| [B,N,4], |scores| [B,C,N] → int64 [count,3]: batch, class, box. |max_boxes| int64 scalar
// a class; thresholds float32 scalars or NULL. |center|: boxes are centre and size, not corners.
CARNOT_API carnot_status* carnot_network_add_nms(carnot_network* network, carnot_value* boxes,
                                                 carnot_value* scores, carnot_value* max_boxes,
                                                 carnot_value* iou_threshold,
                                                 carnot_value* score_threshold, bool center,
                                                 carnot_value** out_value) CARNOT_MUST_USE;

// ---- generating, quantizing, checking ----

// start, start + delta, … before |limit|; scalars of one type.
CARNOT_API carnot_status* carnot_network_add_fill_linspace(
    carnot_network* network, carnot_value* start, carnot_value* limit, carnot_value* delta,
    carnot_value** out_value) CARNOT_MUST_USE;
// |number| in all elements of a tensor of |dims| (int64 [rank]).
CARNOT_API carnot_status* carnot_network_add_fill_constant(
    carnot_network* network, carnot_value* dims, carnot_dtype dtype, double number,
    carnot_value** out_value) CARNOT_MUST_USE;
// Uniform in [a, b), or normal with mean a and deviation b; |seed| 0: another draw each run.
CARNOT_API carnot_status* carnot_network_add_fill_random(carnot_network* network,
                                                         const carnot_dims* dims,
                                                         carnot_dtype dtype, bool normal, double a,
                                                         double b, double seed,
                                                         carnot_value** out_value) CARNOT_MUST_USE;
// round(x / scale) in |to|, saturated, and back. |scale| scalar, [D] along |axis|, or blocks of
// |block| along it.
CARNOT_API carnot_status* carnot_network_add_quantize(carnot_network* network, carnot_value* input,
                                                      carnot_value* scale, carnot_value* zero_point,
                                                      int axis, int64_t block, carnot_dtype to,
                                                      carnot_value** out_value) CARNOT_MUST_USE;
// (x - zero_point) * scale in the type of |scale|; arguments as above.
CARNOT_API carnot_status* carnot_network_add_dequantize(carnot_network* network,
                                                        carnot_value* input, carnot_value* scale,
                                                        carnot_value* zero_point, int axis,
                                                        int64_t block,
                                                        carnot_value** out_value) CARNOT_MUST_USE;
// FAILED_PRECONDITION with |message| when |condition| is known to be false. UNSUPPORTED where it is
// known only at run time.
CARNOT_API carnot_status* carnot_network_add_assertion(carnot_network* network,
                                                       carnot_value* condition,
                                                       const char* message) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_NETWORK_H_
