// DFT and STFT by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/dft/dft_params.h"

// Host operand |i|, or |otherwise| where it is absent.
static carnot_status* number_or(const carnot_step_view* step, const carnot_operand* inputs,
                                uint32_t i, int64_t otherwise, int64_t* out) {
  const carnot_operand* t = carnot_cuda_optional(step, inputs, i);
  double number = (double)otherwise;
  if (t->format.dtype) CARNOT_TRY(carnot_cuda_host_number(t, 0, &number));
  *out = (int64_t)number;
  return NULL;
}

static carnot_status* dft_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  int64_t axis, n;
  int last = x->rank - 1;
  CARNOT_TRY(number_or(step, inputs, 2, -2, &axis));
  if (axis < 0) axis += x->rank;
  CARNOT_CHECK(axis >= 0 && axis < last && y->rank == x->rank, INVALID_MODEL,
               "axis %lld of rank %d", (long long)axis, x->rank);
  bool onesided = carnot_cuda_attr(&a, "onesided") != 0;
  carnot_cuda_dft_params p = {.inverse = carnot_cuda_attr(&a, "inverse") != 0,
                              .length = x->dims[axis],
                              .parts = (int)x->dims[last],
                              .inner = carnot_dims_count(x->dims + axis + 1, last - (int)axis - 1),
                              .frames = 1};
  p.to_real = onesided && p.inverse;
  CARNOT_TRY(number_or(step, inputs, 1, p.to_real ? 2 * (p.length - 1) : p.length, &n));
  p.n = n, p.bins = onesided && !p.inverse ? n / 2 + 1 : n;
  int64_t lanes = carnot_dims_count(x->dims, (int)axis) * p.inner;
  CARNOT_CHECK(n > 0 && n <= INT32_MAX && (p.parts == 1 || p.parts == 2), INVALID_ARGUMENT,
               "a transform of length %lld over numbers of %d parts", (long long)n, p.parts);
  CARNOT_TRY(carnot_cuda_expect(x, "x", lanes * p.length * p.parts));
  CARNOT_TRY(carnot_cuda_expect(y, "the result", lanes * p.bins * (p.to_real ? 1 : 2)));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_dft,
                                   lanes * p.bins, &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(dft, "cuda_dft", DFT, 6u);

static carnot_status* stft_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *window = carnot_cuda_optional(step, inputs, 2);
  int64_t n, apart;
  CARNOT_CHECK(x->rank == 2 || x->rank == 3, INVALID_MODEL, "a signal of rank %d", x->rank);
  CARNOT_TRY(number_or(step, inputs, 1, 0, &apart));
  CARNOT_TRY(number_or(step, inputs, 3,
                       window->format.dtype ? carnot_cuda_count(window) : x->dims[1], &n));
  carnot_cuda_dft_params p = {.length = x->dims[1],
                              .parts = x->rank == 3 ? (int)x->dims[2] : 1,
                              .inner = 1,
                              .frame_step = apart,
                              .n = n,
                              .bins = carnot_cuda_attr(&a, "onesided") ? n / 2 + 1 : n};
  CARNOT_CHECK(
      apart > 0 && n > 0 && n <= p.length && n <= INT32_MAX && (p.parts == 1 || p.parts == 2),
      INVALID_ARGUMENT, "frames of %lld, %lld apart, do not fit a signal of %lld", (long long)n,
      (long long)apart, (long long)p.length);
  p.frames = (p.length - n) / apart + 1;
  int64_t count = x->dims[0] * p.frames * p.bins;
  CARNOT_TRY(carnot_cuda_expect(x, "the signal", x->dims[0] * p.length * p.parts));
  CARNOT_TRY(carnot_cuda_expect(window, "the window", n));
  CARNOT_TRY(carnot_cuda_expect(&outputs[0], "the result", count * 2));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_dft, count, &p,
                                   sizeof(p), state);
}
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(stft, "cuda_stft", STFT, 1u << 1 | 1u << 3);
