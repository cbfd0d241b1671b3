// Out of memory: the n-th allocation fails, for every n, while small networks are imported, built,
// loaded and run. Each step returns OUT_OF_MEMORY or succeeds with the same bytes as without a
// failure. The linker's --wrap replaces the allocator for the library's own calls, so that the test
// runs under the address sanitizer too, which reports leaks and accesses to freed memory.
//
// CARNOT_OOM_STRIDE=<k> lets every k-th allocation fail (default 29; 1: all of them).
#include <dlfcn.h>
#include <stdatomic.h>

#include "import/onnx/onnx.h"
#include "net.h"

void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* old, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
char* __real_strdup(const char* text);
void* __wrap_malloc(size_t bytes);
void* __wrap_calloc(size_t count, size_t bytes);
void* __wrap_realloc(void* old, size_t bytes);
void* __wrap_aligned_alloc(size_t alignment, size_t bytes);
char* __wrap_strdup(const char* text);

// Counts allocations from 1; the one of number |failing| and all after it fail while |lasting|,
// else it alone.
static atomic_long count, failing;
static atomic_bool lasting;

static bool fails(void) {
  long at = atomic_fetch_add(&count, 1) + 1, limit = atomic_load(&failing);
  return limit && (at == limit || (atomic_load(&lasting) && at > limit));
}
void* __wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void* __wrap_calloc(size_t n, size_t bytes) { return fails() ? NULL : __real_calloc(n, bytes); }
void* __wrap_realloc(void* old, size_t bytes) {
  return fails() ? NULL : __real_realloc(old, bytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}
char* __wrap_strdup(const char* text) { return fails() ? NULL : __real_strdup(text); }

// ---- the steps: each makes its result from that of the step before ----

typedef struct journey {
  carnot_graph* (*make)(void);
  const char* model;  // ONNX in the text form of protobuf; NULL: |make|
  int64_t dims[4];    // of input x
  int rank;
  bool refit;
  carnot_graph* graph;
  void* bytes;  // of the engine
  size_t size;
  carnot_engine* engine;
  float* result;  // of output y without a failure
  size_t result_count;
  float* input;
} journey;

typedef struct imported {
  carnot_graph* graph;
  carnot_model_source* source;
} imported;

static carnot_status* import(journey* j, void** out) {
  carnot_onnx_options options = {.text = true};
  imported* result = __real_calloc(1, sizeof(*result));
  carnot_status* status = carnot_onnx_import_memory(j->model, strlen(j->model), &options,
                                                    &result->source, &result->graph);
  if (status) free(result);
  CARNOT_TRY(status);
  *out = result;
  return NULL;
}
static void drop_import(journey* j, void* out) {
  (void)j;
  imported* result = out;
  carnot_graph_destroy(result->graph);
  carnot_model_source_destroy(result->source);
  free(result);
}

static carnot_status* build(journey* j, void** out) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 0;
  config.refit = j->refit;
  carnot_plan* plan;
  CARNOT_TRY(carnot_build_plan(j->graph, &config, &plan));
  void* bytes;
  size_t size;
  carnot_status* status = carnot_plan_write_memory(plan, &bytes, &size);
  carnot_plan_destroy(plan);
  CARNOT_TRY(status);
  *out = bytes;
  if (!j->bytes) {
    j->size = size;
    return NULL;
  }
  // Nothing is wrong in silence: a build that succeeds gives the same engine.
  if (size != j->size || memcmp(bytes, j->bytes, size) != 0)
    fail_msg("build with allocation %ld failing gives another engine", atomic_load(&failing));
  return NULL;
}
static void drop_build(journey* j, void* bytes) {
  (void)j;
  free(bytes);
}

static carnot_status* load(journey* j, void** out) {
  carnot_engine* engine;
  CARNOT_TRY(carnot_engine_load_memory(j->bytes, j->size, NULL, NULL, &engine));
  *out = engine;
  return NULL;
}
static void drop_load(journey* j, void* engine) {
  (void)j;
  carnot_engine_release(engine);
}

static carnot_status* run_on(journey* j, carnot_context* context) {
  carnot_rt_value cell = {.kind = CARNOT_VALUE_TENSOR,
                          .tensor = {.dtype = CARNOT_DTYPE_F32, .rank = j->rank, .data = j->input}};
  memcpy(cell.tensor.dims, j->dims, sizeof(j->dims));
  uint32_t x = 0, y = 0;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, "x", &x));
  CARNOT_TRY(carnot_plan_find_binding(context->plan, "y", &y));
  CARNOT_TRY(carnot_context_set_input_cell(context, x, &cell));
  // The second run must do after a first one that failed.
  carnot_status* first = carnot_context_run_now(context);
  if (first && carnot_status_code(first) != CARNOT_OUT_OF_MEMORY) return first;
  bool failed = first != NULL;
  carnot_status_free(first);
  if (failed && !atomic_load(&lasting)) CARNOT_TRY(carnot_context_run_now(context));
  if (failed && atomic_load(&lasting)) return CARNOT_ERROR(OUT_OF_MEMORY, "the first run");
  const carnot_tensor* result = &carnot_context_output(context, y)->tensor;
  size_t size = (size_t)carnot_tensor_count(result);
  if (!j->result) {
    j->result_count = size;
    j->result = __real_malloc(size * sizeof(float));
    memcpy(j->result, result->data, size * sizeof(float));
  }
  assert_int_equal(size, j->result_count);
  assert_memory_equal(result->data, j->result, size * sizeof(float));
  return NULL;
}
static carnot_status* run(journey* j, void** out) {
  *out = NULL;
  carnot_context_options options = {.isa = -1};
  carnot_context* context;
  CARNOT_TRY(carnot_context_create_on(j->engine, &options, &context));
  carnot_status* status = run_on(j, context);
  carnot_context_free(context);
  return status;
}
static void drop_run(journey* j, void* nothing) { (void)j, (void)nothing; }

// ---- failures in a step ----

typedef struct step {
  const char* name;
  carnot_status* (*does)(journey* j, void** out);
  void (*drop)(journey* j, void* out);
} step;

static long stride(void) {
  const char* text = getenv("CARNOT_OOM_STRIDE");
  long value = text ? atol(text) : 29;
  return value < 1 ? 1 : value;
}

// True when the step went through although allocation |n| was to fail.
static bool fail_at(journey* j, const step* s, long n, bool and_after) {
  void* out = NULL;
  atomic_store(&lasting, and_after);
  atomic_store(&count, 0);
  atomic_store(&failing, n);
  carnot_status* status = s->does(j, &out);
  atomic_store(&failing, 0);
  bool reached = atomic_load(&count) >= n;
  if (status && carnot_status_code(status) != CARNOT_OUT_OF_MEMORY)
    fail_msg("%s with allocation %ld failing%s: %s: %s", s->name, n,
             and_after ? " and all after" : "", carnot_code_name(carnot_status_code(status)),
             carnot_status_message(status));
  if (!status) s->drop(j, out);
  carnot_status_free(status);
  return !reached;
}

// Runs the step without a failure and with one at each sampled allocation; the result of the
// former is the caller's.
static void* try_all(journey* j, const step* s) {
  void* out = NULL;
  atomic_store(&count, 0);
  net_ok(s->does(j, &out));
  long allocations = atomic_load(&count);
  // The stand-in for what the step keeps must see the first result.
  if (s->does == build) j->bytes = out;
  long step_by = stride();
  for (long n = 1; n <= allocations; n += n < 24 ? 1 : step_by) {
    fail_at(j, s, n, /*and_after=*/false);
    fail_at(j, s, n, /*and_after=*/true);
  }
  if (s->does == build) j->bytes = NULL;
  print_message("%s: %ld allocations\n", s->name, allocations);
  return out;
}

static void travel(journey* j) {
  static const step kImport = {"import", import, drop_import},
                    kBuild = {"build", build, drop_build}, kLoad = {"load", load, drop_load},
                    kRun = {"run", run, drop_run};
  carnot_arena arena = {0};
  j->input = net_numbers(&arena, 3, 2 * CONV_NET_CHANNELS * 64 * 64);
  imported* model = j->model ? try_all(j, &kImport) : NULL;
  j->graph = model ? model->graph : j->make();
  j->bytes = try_all(j, &kBuild);
  j->engine = try_all(j, &kLoad);
  try_all(j, &kRun);
  carnot_engine_release(j->engine);
  free(j->bytes);
  if (model)
    drop_import(j, model);
  else
    carnot_graph_destroy(j->graph);
  free(j->result);
  carnot_arena_deinit(&arena);
}

#define HEAD "ir_version: 10 opset_import { version: 18 } "
#define TENSOR(name, dims) \
  "{ name: '" name "' type { tensor_type { elem_type: FLOAT shape {" dims "} } } } "
#define DIM(value) " dim { dim_value: " #value " }"
#define SYM(name)  " dim { dim_param: '" name "' }"

static carnot_arena weights_arena;
static carnot_graph* make_conv(void) {
  conv_net_weights w;
  conv_net_weights_make(&weights_arena, 1, &w);
  return conv_net(&w, 1, 6, 6);
}
static carnot_graph* make_conv_any(void) {
  conv_net_weights w;
  conv_net_weights_make(&weights_arena, 1, &w);
  return conv_net(&w, -1, -2, -3);
}
static carnot_graph* make_attention(void) { return attention_net(6); }
static carnot_graph* make_attention_any(void) { return attention_net(-1); }
static carnot_graph* make_nonzero(void) { return nonzero_net(-1); }

static void test_conv(void** state) {
  (void)state;
  travel(&(journey){.make = make_conv, .rank = 4, .dims = {1, CONV_NET_CHANNELS, 6, 6}});
  travel(&(journey){
      .make = make_conv_any, .rank = 4, .dims = {1, CONV_NET_CHANNELS, 6, 6}, .refit = true});
}
static void test_attention(void** state) {
  (void)state;
  travel(&(journey){.make = make_attention, .rank = 2, .dims = {6, 32}});
  travel(&(journey){.make = make_attention_any, .rank = 2, .dims = {6, 32}});
}
static void test_data_dependent(void** state) {
  (void)state;
  travel(&(journey){.make = make_nonzero, .rank = 1, .dims = {50}});
}
// Shape arithmetic, an unrolled body and a model-local function.
static void test_model(void** state) {
  (void)state;
  static const char* model =
      HEAD "opset_import { domain: 'f' version: 1 } "
      "functions { name: 'Twice' domain: 'f' input: 'a' output: 'b' opset_import { version: 18 } "
      "node { op_type: 'Add' input: ['a', 'a'] output: 'b' } } "
      "graph { name: 'g' input " TENSOR("x", SYM("N") SYM("T") DIM(12)) " output " TENSOR(
          "y", SYM("N") SYM("T") DIM(3) DIM(4)) "initializer { name: 'i0' data_type: 7 int64_data: 0 }"
      "initializer { name: 'i1' data_type: 7 int64_data: 1 }"
      "initializer { name: 'zero' data_type: 7 dims: 1 int64_data: 0 }"
      "initializer { name: 'rest' data_type: 7 dims: 2 int64_data: [3, 4] }"
      "node { op_type: 'Shape' input: 'x' output: 's' }"
      "node { op_type: 'Gather' input: ['s', 'i0'] output: 'n' }"
      "node { op_type: 'Gather' input: ['s', 'i1'] output: 't' }"
      "node { op_type: 'Unsqueeze' input: ['n', 'zero'] output: 'n1' }"
      "node { op_type: 'Unsqueeze' input: ['t', 'zero'] output: 't1' }"
      "node { op_type: 'Concat' input: ['n1', 't1', 'rest'] output: 'to' attribute { name: 'axis' type: INT i: 0 } }"
      "node { op_type: 'Twice' domain: 'f' input: 'x' output: 'xx' }"
      "node { op_type: 'Softmax' input: 'xx' output: 'p' }"
      "node { name: 'heads' op_type: 'Reshape' input: ['p', 'to'] output: 'y' } }";
  travel(&(journey){.model = model, .rank = 3, .dims = {2, 3, 12}});
}

int main(void) {
  carnot_arena_block_bytes = 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_model), cmocka_unit_test(test_conv),
                                     cmocka_unit_test(test_attention),
                                     cmocka_unit_test(test_data_dependent)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  carnot_arena_deinit(&weights_arena);
  return failed;
}
