// For the integration tests: graphs from the internal API, built, serialized, loaded and run, and
// compared with plain loops in double precision.
#ifndef CARNOT_TESTS_INTEGRATION_NET_H_
#define CARNOT_TESTS_INTEGRATION_NET_H_

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builder/builder.h"
#include "ir/graph.h"
#include "plugin/front.h"
#include "run/context.h"
#include "run/refit.h"

#define NET_LIST(...) \
  ((const int64_t[]){__VA_ARGS__}), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define NET_VALUES(...)                   \
  ((carnot_value* const[]){__VA_ARGS__}), \
      (int)(sizeof((carnot_value*[]){__VA_ARGS__}) / sizeof(carnot_value*))

// Fails the test with the status' message.
void net_ok(carnot_status* status);
// Numbers in [-1, 1) that depend on |seed| and the index only.
float net_number(uint32_t seed, size_t index);
// |count| such numbers, in memory of |arena|.
float* net_numbers(carnot_arena* arena, uint32_t seed, size_t count);

// A dimension below 0 is a symbol "d<number>" in [0, CARNOT_DIM_UNBOUNDED); equal numbers are one
// symbol in a call.
carnot_value* net_input(carnot_graph* graph, const char* name, carnot_dtype dtype,
                        const int64_t* dims, int rank);
// A float32 constant: |data| is borrowed, NULL makes numbers from |seed|.
carnot_value* net_weight(carnot_graph* graph, const char* name, uint32_t seed, float* data,
                         const int64_t* dims, int rank);
// The first output of a new node of the main block; NULL |attrs|: none. Attributes live in the
// graph's arena.
carnot_value* net_node(carnot_graph* graph, carnot_op op, const carnot_attrs* attrs,
                       carnot_value* const* inputs, int input_count);
carnot_value* net_fn(carnot_graph* graph, carnot_op op, const char* fn, carnot_value* const* inputs,
                     int input_count);

// The registered plugin of this name; fails the test when there is none.
carnot_plugin_entry* net_plugin(const char* name, const char* version);

// Makes |value| an output called |name|, before the graph is built.
void net_output(carnot_graph* graph, carnot_value* value, const char* name);

// The value of CARNOT_TEST_DEVICE ("cuda"): net_bytes builds for that device and contexts run on
// it; NULL: the CPU.
const char* net_device(void);
// False when the kernels of a stand-in driver compute nothing (CARNOT_FAKE_KERNELS): then results
// are not compared.
bool net_computes(void);
// Builds with |config| (NULL: level 1) and loads the bytes; the caller keeps the graph.
carnot_engine* net_engine(const carnot_graph* graph, const carnot_build_config* config);
// Builds the same; the caller frees the bytes.
void net_bytes(const carnot_graph* graph, const carnot_build_config* config, void** out_data,
               size_t* out_size);
carnot_context* net_context(carnot_engine* engine, int isa);
// Sets input |name|; |data| is borrowed until the run ends.
void net_set(carnot_context* context, const char* name, carnot_dtype dtype, const void* data,
             const int64_t* dims, int rank);
// Output |name| after a run.
const carnot_tensor* net_get(const carnot_context* context, const char* name);

// |found| equals |wanted| within absolute + relative * |wanted|.
void net_near(const float* found, const double* wanted, size_t count, double relative,
              double absolute);

// ---- graphs that several tests use ----

typedef struct conv_net_weights {
  float *conv, *bias, *gamma, *beta, *mean, *variance, *second;
} conv_net_weights;

enum { CONV_NET_CHANNELS = 8, CONV_NET_FILTERS = 24 };

// x [n,8,h,w] → conv 3x3 pad 1 → batch norm → + conv 1x1 of x → relu → y. Names conv.weight,
// bn.gamma, …
carnot_graph* conv_net(const conv_net_weights* w, int64_t n, int64_t h, int64_t width);
void conv_net_weights_make(carnot_arena* arena, uint32_t seed, conv_net_weights* out);
void conv_net_wanted(const conv_net_weights* w, const float* x, int64_t n, int64_t h, int64_t width,
                     double* out);
// x [tokens,32] → self-attention with 4 heads as matmul, softmax, transposes → + x →
// layer norm → y.
carnot_graph* attention_net(int64_t tokens);
// x [n,8,side,side] → conv 1x1 → squeeze and excitation over 4 hidden channels → group norm → y.
carnot_graph* squeeze_net(int64_t n, int64_t side);
// x [n] → NonZero → Gather of x at those → y: the elements that are not 0.
carnot_graph* nonzero_net(int64_t n);
// x [n,2,6,6], boxes [n,3,4], scores [n,3,2] → plugins CropAndResize and EfficientNMS_TRT → crops,
// count, found.
carnot_graph* plugin_net(int64_t n);
// count int64 → Loop that stacks i * x and carries the sum → sum, stack.
carnot_graph* loop_net(void);

#endif  // CARNOT_TESTS_INTEGRATION_NET_H_
