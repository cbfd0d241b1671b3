// How the GEMMs of gemm_tma.cuh are cut: split-K over a cluster, stages in shared memory.
#include "backend/cuda/gemm/gemm_tma_layout.h"

enum {
  kMostTiles = 65535,  // one below the other
  kMostSmall = 400,
  kMaxSplits = 8,
  kBytesEach = 8 * 128,  // of K that a part has about
  kMostShared = 226 << 10,
  kHalfShared = 112 << 10,  // two blocks a multiprocessor
  kAlignment = 1024,        // of the stages
  kLeastStages = 4
};

const char* carnot_cuda_gemm_tma_size_reject(int64_t rows, int64_t columns, int tile_rows,
                                             int tile_columns, char* reason, size_t size) {
  const int64_t down = carnot_ceildiv(rows, tile_rows),
                across = carnot_ceildiv(columns, tile_columns);
  const bool tall = rows <= tile_rows / 2, wide = columns <= tile_columns / 2;
  // Others beat it.
  const bool many = down * across > kMostSmall && (tile_rows == 64 || columns % 32 == 0);
  if (tall || wide || many || down > kMostTiles)
    return carnot_cuda_reject_reason(reason, size, "no size for %lldx%lld results", (long long)rows,
                                     (long long)columns);
  return NULL;
}

// Shared memory for |splits| split-K parts: as many stages as fit in |limit| bytes. False where
// these are too few.
static bool fits(int64_t splits, int64_t limit, carnot_cuda_gemm_tma_layout* s) {
  const int64_t steps = carnot_ceildiv(s->steps, splits),
                stage = (int64_t)(s->rows + s->columns) * s->pitch,
                own = CARNOT_CUDA_GEMM_ACCUMULATOR_BYTES(s->rows, s->columns),
                others = (splits - 1) * carnot_ceildiv(s->rows / 8, splits) * 8 * own / s->rows,
                stages = carnot_min_i64((limit - kAlignment - others) / stage,
                                        CARNOT_CUDA_GEMM_TMA_STAGES);
  s->stages = (int)carnot_min_i64(stages, steps);
  s->parts = (int)carnot_max_i64(s->stages * stage, own);
  s->shared_bytes = (size_t)(kAlignment + s->parts + others);
  return (int64_t)s->shared_bytes <= limit && s->stages >= carnot_min_i64(kLeastStages, steps);
}

// Depth is cut over the blocks of a cluster while multiprocessors would have nothing to do.
static carnot_status* choose(carnot_cuda* cuda, CUfunction function,
                             carnot_cuda_gemm_tma_layout* s) {
  const int64_t slots = cuda->base.multiprocessor_count, tiles = s->grid[0] * s->grid[1],
                steps_each = kBytesEach / s->pitch;
  s->across = s->grid[0] == 2 && tiles > slots ? 2 : 1;
  s->grid[2] = 1;
  if (tiles > slots && fits(1, kHalfShared, s)) return NULL;
  for (int64_t splits = carnot_min_i64(carnot_min_i64(kMaxSplits, slots / tiles),
                                       (s->steps + steps_each / 2) / steps_each);
       splits > 1; splits--) {
    const int64_t cluster[3] = {1, 1, splits};
    int count;
    const bool idle = (splits - 1) * carnot_ceildiv(s->steps, splits) >= s->steps;
    if (idle || !fits(splits, kMostShared, s)) continue;
    CARNOT_TRY(carnot_cuda_cluster_count(cuda, function, CARNOT_CUDA_GEMM_TMA_THREADS(s->rows),
                                         cluster, s->shared_bytes, &count));
    s->grid[2] = splits;
    if (tiles <= count) return NULL;
  }
  s->grid[2] = 1;
  fits(1, kMostShared, s);
  return NULL;
}

carnot_status* carnot_cuda_gemm_tma_lay_out(carnot_cuda* cuda, CUfunction function, int64_t rows,
                                            int64_t columns, carnot_cuda_gemm_tma_layout* s) {
  s->grid[0] = carnot_ceildiv(columns, s->columns), s->grid[1] = carnot_ceildiv(rows, s->rows);
  if (!s->grid[0] || !s->grid[1]) return NULL;
  CARNOT_CHECK(s->grid[1] <= kMostTiles, UNSUPPORTED, "%lld tiles, takes up to %d",
               (long long)s->grid[1], kMostTiles);
  CARNOT_CUDA_TRY(
      cuda,
      cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kMostShared));
  return choose(cuda, function, s);
}
