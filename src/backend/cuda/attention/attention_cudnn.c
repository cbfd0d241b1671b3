// Attention regions without a mask by cuDNN.
#include <string.h>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/library/cudnn_plan.h"

// cuDNN 9.10.0 and 9.10.1 give wrong results, by their release notes.
enum { kWrongFrom = 91000, kWrongUpTo = 91001 };

typedef struct cudnn_attention_state {
  carnot_cuda_cudnn_plan* plan;
  carnot_cuda_attention_offsets at;
  float scale;
} cudnn_attention_state;
_Static_assert(sizeof(cudnn_attention_state) <= CARNOT_STATE_BYTES, "the state has its size");

// |out| has its call; |dtype| is the result's.
static carnot_status* complete_key(carnot_dtype dtype, const carnot_cuda_attention_offsets* at,
                                   carnot_cuda_cudnn_key* out) {
  out->kind = CARNOT_CUDA_CUDNN_ATTENTION;
  out->dtype = (int32_t)dtype;
  const carnot_cuda_attention_params* call = &out->attention.call;
  CARNOT_CHECK(at->aligned, UNSUPPORTED, "heads do not begin at multiples of 16 bytes");
  CARNOT_CHECK(at->heads > 0 && call->queries > 0 && call->keys > 0 &&
                   (double)at->heads * call->queries * call->keys < 0x1p62,
               UNSUPPORTED, "%lld heads of %d queries and %d keys", (long long)at->heads,
               call->queries, call->keys);
  out->attention.call.scale = 0;  // set by each run
  out->attention.heads = at->heads;
  return NULL;
}

// At the sizes that the build is for.
static carnot_status* key_of(const carnot_problem* problem,
                             const carnot_cuda_attention_stored* stored,
                             carnot_cuda_cudnn_key* out) {
  carnot_cuda_attention_offsets at;
  memset(out, 0, sizeof(*out));
  CARNOT_TRY(carnot_cuda_attention_describe_problem(problem, stored, &out->attention.call, &at));
  return complete_key(problem->outputs[0].format.dtype, &at, out);
}

static uint64_t attention_cudnn_load_ns(const carnot_problem* problem,
                                        const carnot_prepared* prepared) {
  const carnot_cuda_attention_stored* stored = prepared->params;
  carnot_cuda_cudnn_key key;
  carnot_status* status = key_of(problem, stored, &key);
  uint64_t ns = status ? 0 : carnot_cuda_cudnn_made_ns(carnot_cuda_of(problem->device), &key, NULL);
  carnot_status_free(status);
  return ns;
}

static const char* attention_cudnn_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_attention_stored stored;
  const carnot_attention_params* p = &stored.attention;
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  const char* why = carnot_cuda_attention_reject(problem, &stored, reason, size);
  if (!why) why = carnot_cuda_lacks_cudnn(cuda);
  if (why) return why;
  if (p->mask >= 0 || p->zero_empty) return "a mask";
  if (stored.result.type != CARNOT_CUDA_BYTE_NONE) return "its result is quantized";
  if (cuda->cudnn_version >= kWrongFrom && cuda->cudnn_version <= kWrongUpTo)
    return carnot_cuda_reject_reason(reason, size, "attention of cuDNN %d is wrong",
                                     cuda->cudnn_version);
  carnot_cuda_cudnn_plan* plan = NULL;
  carnot_cuda_cudnn_key key;
  carnot_status* status = key_of(problem, &stored, &key);
  if (!status) status = carnot_cuda_cudnn_find(cuda, &key, NULL, &plan);
  if (!status && plan->plan) return NULL;
  carnot_cuda_reject_reason(reason, size, status ? "%s" : "cuDNN has no engine for it",
                            status ? carnot_status_message(status) : "");
  carnot_status_free(status);
  return reason;
}

static carnot_status* attention_cudnn_shape(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  const carnot_attention_params* p =
      &((const carnot_cuda_attention_stored*)step->params)->attention;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  cudnn_attention_state* s = state;
  const char* missing = carnot_cuda_lacks_cudnn(cuda);
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  CARNOT_CHECK(p->mask < 0, INVALID_MODEL, "attention of cuDNN takes no mask");
  carnot_cuda_cudnn_key key;
  *s = (cudnn_attention_state){.scale = p->scale};
  memset(&key, 0, sizeof(key));
  CARNOT_TRY(carnot_cuda_attention_describe(p, inputs[p->q.input].format.dtype, NULL, inputs,
                                            outputs, &key.attention.call, &s->at));
  CARNOT_TRY(complete_key(outputs[0].format.dtype, &s->at, &key));
  CARNOT_TRY(carnot_cuda_cudnn_find(cuda, &key, NULL, &s->plan));
  CARNOT_CHECK(s->plan->plan, UNSUPPORTED,
               "cuDNN %d has no engine for %lld heads of %d queries and %d keys of %d and %d",
               cuda->cudnn_version, (long long)s->at.heads, key.attention.call.queries,
               key.attention.call.keys, key.attention.call.size, key.attention.call.value_size);
  *out_workspace_bytes = (size_t)s->plan->workspace_bytes;
  return NULL;
}

static carnot_status* attention_cudnn_run(const carnot_step_view* step, void* state,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* workspace,
                                          carnot_executor* executor) {
  (void)executor;
  const carnot_attention_params* p =
      &((const carnot_cuda_attention_stored*)step->params)->attention;
  cudnn_attention_state* s = state;
  static const int64_t kIds[CARNOT_CUDA_CUDNN_TENSORS] = {CARNOT_CUDA_CUDNN_Q, CARNOT_CUDA_CUDNN_K,
                                                          CARNOT_CUDA_CUDNN_V, CARNOT_CUDA_CUDNN_Y,
                                                          CARNOT_CUDA_CUDNN_SCALE};
  void* const addresses[CARNOT_CUDA_CUDNN_TENSORS] = {
      (char*)inputs[p->q.input].data + s->at.q, (char*)inputs[p->k.input].data + s->at.k,
      (char*)inputs[p->v.input].data + s->at.v, (char*)outputs[0].data + s->at.y, &s->scale};
  CARNOT_TRY(carnot_cuda_fence_before_library(step));
  return carnot_cuda_cudnn_execute(carnot_cuda_of_step(step), carnot_cuda_stream_of(step)->handle,
                                   s->plan, CARNOT_CUDA_CUDNN_TENSORS, kIds, addresses, workspace);
}

const carnot_tactic carnot_cuda_attention_cudnn = {.name = "cuda_attention_cudnn",
                                                   .anchor = CARNOT_OP_SOFTMAX,
                                                   .numerics = CARNOT_NUMERICS_HALF,
                                                   .device = true,
                                                   .sources = 1u << CARNOT_SOURCE_CUDNN,
                                                   .load_ns = attention_cudnn_load_ns,
                                                   .reject = attention_cudnn_reject,
                                                   .prepare = carnot_cuda_attention_prepare,
                                                   .validate = carnot_cuda_attention_check,
                                                   .uses_input = carnot_cuda_attention_reads,
                                                   .configure = attention_cudnn_shape,
                                                   .run = attention_cudnn_run};
