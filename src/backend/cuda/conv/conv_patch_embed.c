// Patch embedding: convolutions whose windows do not overlap, as a gather of patches and a GEMM by
// cuBLASLt.
#include <string.h>

#include "backend/cuda/conv/conv.h"
#include "backend/cuda/copy/strided_copy.h"
#include "backend/cuda/library/cublaslt.h"

// For smaller ones cuDNN's convolutions, which need no copy, are as fast.
enum { kMostChannels = 7, kLeastTaps = 16, kAlign = 256 };

static const carnot_epilogue_mask kEpilogue = {.biases = CARNOT_EPILOGUE_ONE_BIAS};

typedef struct patch_params {
  int32_t fast_fp32;
  carnot_cuda_cublaslt_choice choice;
} patch_params;

typedef struct patch_state {
  carnot_cuda_cublaslt_plan* plan;
  carnot_cuda_strided_copy gather;
  size_t patch_bytes;
  uint32_t weights, bias;
  carnot_cuda_chain_state chain;
} patch_state;
_Static_assert(sizeof(patch_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* patch_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->nodes[0].op != CARNOT_OP_CONV) return "";
  const char* missing = carnot_cuda_lacks_cublaslt(carnot_cuda_of(problem->device));
  if (missing) return missing;
  carnot_cuda_conv c;
  const char* why = carnot_cuda_conv_read(problem, &kEpilogue, &c, reason, size);
  const carnot_operand_desc* x = &problem->inputs[0];
  if (!why) why = carnot_cuda_not_float(x, reason, size);
  if (why) return why;
  const carnot_operand_desc* w = &problem->inputs[c.weights];
  if (x->rank < 3 || x->rank > 5 || w->rank != x->rank || w->format.dtype != x->format.dtype)
    return carnot_cuda_reject_reason(reason, size, "an input of rank %d, weights of rank %d",
                                     x->rank, w->rank);
  const carnot_sliding_window* t = &c.problem.window;
  if (!t->rank) return "the weights have no fixed sizes";
  if (c.problem.group != 1) return "several groups";
  int64_t taps = carnot_dims_count(w->dims + 2, w->rank - 2);
  if (w->dims[1] > kMostChannels || taps < kLeastTaps)
    return carnot_cuda_reject_reason(
        reason, size, "%lld channels of %lld taps; takes up to %d channels and from %d taps on",
        (long long)w->dims[1], (long long)taps, kMostChannels, kLeastTaps);
  bool apart = t->auto_pad == CARNOT_PAD_NOTSET || t->auto_pad == CARNOT_PAD_VALID;
  for (int d = 0; d < t->rank; d++)
    apart = apart && t->strides[d] == t->kernel[d] && t->dilations[d] == 1 && !t->begin[d] &&
            !t->end[d];
  if (!apart) return "the windows overlap, or reach into the padding";
  carnot_cuda_want_row_major(problem);
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static void set_gemm(int32_t type, int64_t rows, int64_t filters, int64_t taps, bool bias,
                     bool fast, int alignment, carnot_cuda_cublaslt_gemm* out) {
  memset(out, 0, sizeof(*out));
  out->m = rows, out->n = filters, out->k = taps, out->batch = 1;
  out->a_ld = out->b_ld = taps;
  out->type = out->result = type, out->trans_b = 1, out->bias = bias, out->fast = fast;
  out->alignment = alignment;
}

// The fastest algorithm at the optimal sizes; what cannot be timed goes by the heuristic.
static void choose_algo(const carnot_problem* problem, const carnot_cuda_conv* c,
                        carnot_cuda_cublaslt_choice* out) {
  const carnot_operand_desc *w = &problem->inputs[c->weights], *y = &problem->outputs[0];
  for (int d = 0; d < y->rank; d++)
    if (y->dims[d] < 1) return;
  int64_t taps = carnot_dims_count(w->dims + 1, w->rank - 1);
  int64_t rows = carnot_dims_count(y->dims, y->rank) / y->dims[1];
  carnot_cuda_cublaslt_gemm gemm;
  set_gemm((int32_t)y->format.dtype, rows, y->dims[1], taps, c->bias != CARNOT_PLAN_NONE,
           problem->fast_fp32, 16, &gemm);
  carnot_cuda_cublaslt_choose(problem, &gemm, out);
}

static carnot_status* patch_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_problem(problem, &kEpilogue, &c));
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(patch_params), "parameters", &params));
  patch_params* made = params;
  *made = (patch_params){.fast_fp32 = problem->fast_fp32};
  if (problem->previous && problem->previous->param_bytes == sizeof(*made))
    *made = *(const patch_params*)problem->previous->params;
  if (problem->allow_timing) choose_algo(problem, &c, &made->choice);
  out->params = params;
  out->param_bytes = sizeof(patch_params);
  return carnot_cuda_chain_prepare(problem, &c.chain, problem->inputs[0].format.dtype, out);
}

static carnot_status* patch_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(patch_params), INVALID_MODEL, "%u bytes of parameters",
               step->param_bytes);
  return NULL;
}

// The strided copy of [n, o1 k1 + .., ..] with c channels to rows [n, o1, .., c, k1, ..] (im2col
// of windows that do not overlap).
static carnot_status* set_gather(const carnot_step_view* step, const carnot_operand* x,
                                 const carnot_operand* w, const carnot_operand* y, patch_state* s) {
  int spatial = x->rank - 2, rank = 2 + 2 * spatial;
  int64_t dims[CARNOT_MAX_RANK], from[CARNOT_MAX_RANK], to[CARNOT_MAX_RANK];
  dims[0] = x->dims[0], from[0] = x->strides[0];
  dims[1 + spatial] = x->dims[1], from[1 + spatial] = x->strides[1];
  for (int d = 0; d < spatial; d++) {
    dims[1 + d] = y->dims[2 + d], from[1 + d] = x->strides[2 + d] * w->dims[2 + d];
    dims[2 + spatial + d] = w->dims[2 + d], from[2 + spatial + d] = x->strides[2 + d];
  }
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, rank, dims, to);
  return carnot_cuda_strided_copy_make(step, rank, dims, from, 0, to, 0, carnot_cuda_bytes(x),
                                       &s->gather);
}

static carnot_status* patch_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const char* missing = carnot_cuda_lacks_cublaslt(cuda);
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, &kEpilogue, &c));
  const carnot_operand *x = &inputs[0], *w = &inputs[c.weights], *y = &outputs[0];
  carnot_cuda_sliding_window t;
  CARNOT_TRY(carnot_cuda_sliding_window_make(&step->region->nodes[0], x, w, y, &t));
  int64_t taps = carnot_dims_count(w->dims + 1, w->rank - 1);
  bool fits = carnot_cuda_is_float(x->format.dtype) && w->format.dtype == x->format.dtype &&
              w->rank == x->rank && w->dims[0] == t.filters && w->dims[1] == t.channels &&
              y->strides[1] == 1;
  for (int d = 0; d < 3; d++)
    fits = fits && t.step[d] == t.kernel[d] && t.dilation[d] == 1 && t.begin[d] == 0 &&
           t.out[d] * t.kernel[d] <= t.in[d];
  CARNOT_CHECK(fits, INVALID_ARGUMENT, "the weights do not cut %lld channels into patches",
               (long long)t.channels);
  CARNOT_TRY(carnot_cuda_conv_check_bias(&c, inputs, y, t.filters, /*alignment=*/1));
  patch_state* s = state;
  *s = (patch_state){.weights = c.weights, .bias = c.bias};
  int64_t rows = t.n * t.out[0] * t.out[1] * t.out[2];
  uintptr_t bits = (uintptr_t)w->data | (uintptr_t)y->data | 16;
  int alignment = (int)(bits & -bits);
  const patch_params* params = step->params;
  carnot_cuda_cublaslt_gemm gemm;
  set_gemm((int32_t)x->format.dtype, rows, t.filters, taps, c.bias != CARNOT_PLAN_NONE,
           params->fast_fp32, alignment, &gemm);
  CARNOT_TRY(carnot_cuda_cublaslt_find(cuda, &gemm, &params->choice, &s->plan));
  CARNOT_TRY(set_gather(step, x, w, y, s));
  s->patch_bytes = carnot_align_up((size_t)(rows * taps * carnot_cuda_bytes(x)), kAlign);
  *out_workspace_bytes = s->patch_bytes + carnot_cuda_cublaslt_workspace(s->plan);
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, &s->chain);
}

static carnot_status* patch_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)executor;
  patch_state* s = state;
  CARNOT_TRY(carnot_cuda_strided_copy_run(step, &s->gather, inputs[0].data, workspace));
  const carnot_cuda_cublaslt_operands operands = {.a = workspace,
                                                  .b = inputs[s->weights].data,
                                                  .bias = carnot_cuda_conv_data(inputs, s->bias),
                                                  .y = outputs[0].data,
                                                  .workspace = (char*)workspace + s->patch_bytes,
                                                  .alpha = 1};
  CARNOT_TRY(carnot_cuda_fence_before_library(step));
  CARNOT_TRY(carnot_cuda_cublaslt_run(carnot_cuda_of_step(step), s->plan, &operands,
                                      carnot_cuda_stream_of(step)->handle));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_conv_patch_embed = {.name = "cuda_conv_patch_embed",
                                                    .anchor = CARNOT_OP_CONV,
                                                    .numerics = CARNOT_NUMERICS_EXACT,
                                                    .device = true,
                                                    .sources = 1u << CARNOT_SOURCE_CUBLAS_LT,
                                                    .reject = patch_reject,
                                                    .prepare = patch_prepare,
                                                    .validate = patch_validate,
                                                    .configure = patch_configure,
                                                    .run = patch_run};
