// Convolution of bytes by AMX: int32 sums, see conv2d_tiles_loop.h.
#include "kernel/cpu/conv/conv2d_s8_tiles.h"

#include "kernel/cpu/conv/conv2d_tiles_loop.h"
#include "kernel/cpu/gemm/store_int8.h"

static void copy_pixels(const tiles_call* call, const char* from, int64_t stride, int64_t count,
                        char* to) {
  const int64_t channels = call->conv.c, whole = channels & ~INT64_C(63);
  const __mmask64 rest = (UINT64_C(1) << (channels - whole)) - 1;
  for (int64_t i = 0; i < count; ++i, from += stride, to += call->layout.depth) {
    for (int64_t k = 0; k < whole; k += 64)
      _mm512_store_si512(to + k, _mm512_loadu_si512(from + k));
    if (rest) _mm512_store_si512(to + whole, _mm512_maskz_loadu_epi8(rest, from + whole));
  }
}

static void sum(const tiles_call* call, const tiles_step* s, int64_t n, tiles_overlap* overlap,
                char* sums) {
  if (((const carnot_conv2d_s8_tiles*)call->problem)->conv.src_signed)
    sums_of_step(TILES_S8S8, call, s, n, overlap, sums);
  else
    sums_of_step(TILES_U8S8, call, s, n, overlap, sums);
}

static void store(const tiles_call* call, const void* state, const tiles_step* s, int64_t n,
                  int begin, int end, void* sums) {
  (void)state;
  const carnot_conv2d_u8s8* p = &((const carnot_conv2d_s8_tiles*)call->problem)->conv;
  const int64_t columns = min_i64(kStepColumns, call->n1 - n);
  const int32_t* from = sums;
  if (s->dense) {
    store_rows(&p->epilogue, p->epilogue.bias, p->dst, p->ld, s->out[0] + begin, end - begin, n,
               columns, from + begin * kStepColumns, kStepColumns);
    return;
  }
  for (int i = begin, next; i < end; i = next) {
    const int64_t m = s->out[i];
    for (next = i + 1; next < end && s->out[next] == (m < 0 ? m : m + next - i);) ++next;
    if (m >= 0)
      store_rows(&p->epilogue, p->epilogue.bias, p->dst, p->ld, m, next - i, n, columns,
                 from + i * kStepColumns, kStepColumns);
  }
}

void CARNOT_KERNEL(conv2d_s8_tiles)(const carnot_conv2d_s8_tiles* p, int64_t m0, int64_t m1,
                                    int64_t n0, int64_t n1) {
  tiles_call call = {.conv = tiles_conv_of_s8(p),
                     .problem = p,
                     .copy_pixels = copy_pixels,
                     .sum = sum,
                     .store = store,
                     .border = p->conv.border ? *(const uint8_t*)p->conv.border : 0,
                     .scratch = p->scratch,
                     .weights = (const char*)p->conv.weights,
                     .n0 = n0,
                     .n1 = n1};
  run_tiles(&call, m0, m1);
}
