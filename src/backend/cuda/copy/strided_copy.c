// Strided copies: axes joined, elements widened, transposes as tiles or by vectors of eight.
#include "backend/cuda/copy/strided_copy.h"

#include <string.h>

typedef struct walk {
  int rank;
  int64_t dims[CARNOT_MAX_RANK], src[CARNOT_MAX_RANK], dst[CARNOT_MAX_RANK];
} walk;

// Axes by the distance of their elements in the result, so that it is written in order.
static void sort(walk* w) {
  for (int i = 1; i < w->rank; i++)
    for (int k = i; k > 0 && w->dst[k] > w->dst[k - 1]; k--) {
      const int64_t dim = w->dims[k], src = w->src[k], dst = w->dst[k];
      w->dims[k] = w->dims[k - 1], w->src[k] = w->src[k - 1], w->dst[k] = w->dst[k - 1];
      w->dims[k - 1] = dim, w->src[k - 1] = src, w->dst[k - 1] = dst;
    }
}

static void drop_single(walk* w) {
  int rank = 0;
  for (int d = 0; d < w->rank; d++)
    if (w->dims[d] != 1)
      w->dims[rank] = w->dims[d], w->src[rank] = w->src[d], w->dst[rank++] = w->dst[d];
  w->rank = rank;
}

// Neighbours joined that both sides let.
static void collapse(walk* w) {
  int rank = 0;
  for (int d = 0; d < w->rank; d++) {
    bool joins = rank > 0 && w->src[rank - 1] == w->src[d] * w->dims[d] &&
                 w->dst[rank - 1] == w->dst[d] * w->dims[d];
    int to = joins ? rank - 1 : rank++;
    w->dims[to] = joins ? w->dims[to] * w->dims[d] : w->dims[d];
    w->src[to] = w->src[d], w->dst[to] = w->dst[d];
  }
  w->rank = rank;
}

// The widest element that both sides can be cut into: up to 16 bytes.
static int widen(walk* w, int bytes, int64_t src_offset, int64_t dst_offset) {
  int last = w->rank - 1;
  while (w->rank && bytes < 16 && w->src[last] == 1 && w->dst[last] == 1 &&
         w->dims[last] % 2 == 0) {
    bool even = src_offset % (2 * bytes) == 0 && dst_offset % (2 * bytes) == 0;
    for (int d = 0; d < last; d++) even = even && w->src[d] % 2 == 0 && w->dst[d] % 2 == 0;
    if (!even) break;
    for (int d = 0; d < last; d++) w->src[d] /= 2, w->dst[d] /= 2;
    w->dims[last] /= 2;
    bytes *= 2;
  }
  return bytes;
}

// Two axes swapped, with at most one of batches around them.
static bool is_swap(const walk* w, carnot_cuda_strided_copy* out) {
  if (w->rank != 2 && w->rank != 3) return false;
  int r = w->rank - 2, c = w->rank - 1;
  if (w->dst[c] != 1 || w->src[r] != 1 || w->dims[r] < 8 || w->dims[c] < 8) return false;
  carnot_cuda_copy_params* p = &out->params;
  p->rank = 3;
  p->dims[0] = w->rank == 3 ? w->dims[0] : 1, p->dims[1] = w->dims[r], p->dims[2] = w->dims[c];
  p->src[0] = w->rank == 3 ? w->src[0] : 0, p->src[1] = 1, p->src[2] = w->src[c];
  p->dst[0] = w->rank == 3 ? w->dst[0] : 0, p->dst[1] = w->dst[r], p->dst[2] = 1;
  out->grid[0] = carnot_ceildiv(w->dims[c], 32), out->grid[1] = carnot_ceildiv(w->dims[r], 32);
  out->grid[2] = p->dims[0];
  p->count = 0;  // the mark of tiles
  return out->grid[1] <= 65535 && out->grid[2] <= 65535;
}

// The kernel of a swap: eight 16-bit elements of an axis that lie in a row are one vector.
static carnot_cuda_kernel_id swap_kernel(carnot_cuda_strided_copy* s, int bytes) {
  static const carnot_cuda_kernel_id kTranspose[] = CARNOT_CUDA_BY_BYTES(transpose);
  const carnot_cuda_copy_params* p = &s->params;
  const bool is_wide = bytes == 2 && s->src_offset % 16 == 0 && s->dst_offset % 16 == 0,
             from = is_wide && p->dims[1] == 8 && (p->src[0] | p->src[2]) % 8 == 0,
             to = is_wide && p->dims[2] == 8 && (p->dst[0] | p->dst[1]) % 8 == 0;
  if (!from && !to) return kTranspose[bytes];
  s->grid[0] = carnot_ceildiv(p->dims[0] * p->dims[from ? 2 : 1], CARNOT_CUDA_THREADS);
  s->grid[1] = s->grid[2] = 1;
  return from ? CARNOT_CUDA_KERNEL_transpose_from_eights : CARNOT_CUDA_KERNEL_transpose_to_eights;
}

static const carnot_cuda_kernel_id kCopy[] = CARNOT_CUDA_BY_BYTES(copy);

carnot_status* carnot_cuda_strided_copy_make(const carnot_step_view* step, int rank,
                                             const int64_t* dims, const int64_t* src,
                                             int64_t src_offset, const int64_t* dst,
                                             int64_t dst_offset, int bytes,
                                             carnot_cuda_strided_copy* out) {
  *out = (carnot_cuda_strided_copy){.src_offset = src_offset * bytes,
                                    .dst_offset = dst_offset * bytes};
  walk w = {.rank = rank};
  memcpy(w.dims, dims, (size_t)rank * sizeof(*dims));
  memcpy(w.src, src, (size_t)rank * sizeof(*src));
  memcpy(w.dst, dst, (size_t)rank * sizeof(*dst));
  out->params.count = carnot_dims_count(dims, rank);
  if (!out->params.count) return NULL;
  drop_single(&w);
  sort(&w);
  collapse(&w);
  if (is_swap(&w, out))
    return carnot_cuda_kernel(carnot_cuda_of_step(step), swap_kernel(out, bytes), &out->function);
  *out = (carnot_cuda_strided_copy){.src_offset = src_offset * bytes,
                                    .dst_offset = dst_offset * bytes};
  bytes = widen(&w, bytes, out->src_offset, out->dst_offset);
  out->params.rank = w.rank;
  out->params.count = carnot_dims_count(w.dims, w.rank);
  CARNOT_CHECK(w.rank <= CARNOT_CUDA_RANK, UNSUPPORTED, "a copy over %d axes, %d are taken", w.rank,
               CARNOT_CUDA_RANK);
  for (int d = 0; d < w.rank; d++) {
    out->params.dims[d] = w.dims[d];
    out->params.src[d] = w.src[d];
    out->params.dst[d] = w.dst[d];
  }
  out->grid[0] = carnot_ceildiv(out->params.count, CARNOT_CUDA_THREADS);
  out->grid[1] = out->grid[2] = 1;
  return carnot_cuda_kernel(carnot_cuda_of_step(step), kCopy[bytes], &out->function);
}

carnot_status* carnot_cuda_strided_copy_run(const carnot_step_view* step,
                                            carnot_cuda_strided_copy* move, const void* x,
                                            void* y) {
  if (!move->function) return NULL;
  move->params.x = (const char*)x + move->src_offset;
  move->params.y = (char*)y + move->dst_offset;
  return carnot_cuda_launch(step, move->function, move->grid, CARNOT_CUDA_THREADS, &move->params);
}

const char* carnot_cuda_whole_bytes(const carnot_operand_desc* t, char* reason, size_t size) {
  int bits = carnot_dtype_bits(t->format.dtype);
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return carnot_cuda_reject_reason(reason, size, "no copy for %s",
                                     carnot_dtype_name(t->format.dtype));
  return NULL;
}

// One move of input 0 to output 0.
carnot_status* carnot_cuda_strided_copy_tactic_run(const carnot_step_view* step, void* state,
                                                   const carnot_operand* inputs,
                                                   const carnot_operand* outputs, void* workspace,
                                                   carnot_executor* executor) {
  (void)workspace, (void)executor;
  return carnot_cuda_strided_copy_run(step, state, inputs[0].data, outputs[0].data);
}

carnot_status* carnot_cuda_check_copy(const carnot_operand* x, const carnot_operand* y) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  CARNOT_CHECK(x->format.dtype == y->format.dtype, INVALID_ARGUMENT, "a move from %s to %s",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype));
  return NULL;
}
