// The tile kernels of tile.cuh: one row a size of tile, the builder times them.
#include "backend/cuda/tile.h"

#include <stdio.h>

enum { kMaxSplits = 8, kLeastSteps = 2, kDepth = 64 };

typedef struct tile_size {
  int rows, columns, stages, threads;
} tile_size;

typedef struct tile_state {
  CUfunction function;
  carnot_cuda_tile_step step;
  int64_t grid[3];
  size_t shared_bytes;
} tile_state;
_Static_assert(sizeof(tile_state) <= CARNOT_STATE_BYTES, "the state has its size");

// Sizes that others beat without being timed.
static const char* reject_size(const tile_size* tile, int64_t rows, int64_t columns, char* reason,
                               size_t size) {
  bool tall = tile->rows > 16 && rows <= tile->rows / 2;
  bool flat = tile->rows <= 32 && rows > 4 * tile->rows;
  bool wide = tile->columns > 32 && columns <= tile->columns / 2;
  bool narrow = tile->columns == 32 && columns > 128;
  if (!tall && !flat && !wide && !narrow) return NULL;
  return carnot_cuda_because(reason, size, "no size for %lldx%lld results", (long long)rows,
                             (long long)columns);
}

// Depth is cut over the blocks of a cluster while multiprocessors would have nothing to do.
static int splits_of(const carnot_cuda* cuda, const tile_size* tile, int64_t tiles, int depth) {
  if (cuda->major < 9) return 1;
  bool large = tile->stages * CARNOT_CUDA_TILE_STAGE(tile->rows, tile->columns) > 110 << 10;
  int64_t slots = (int64_t)cuda->base.multiprocessor_count * (large ? 1 : 2);
  int steps = (int)carnot_ceildiv(depth, kDepth);
  int64_t splits = carnot_min_i64(carnot_min_i64(kMaxSplits, slots / tiles), steps / kLeastSteps);
  if (splits <= 1) return 1;
  return (int)carnot_ceildiv(steps, carnot_ceildiv(steps, splits));  // none is left without work
}

// No more stages than there are steps, so that more blocks find room.
static size_t shared_bytes_of(const tile_size* tile, int depth, int64_t splits) {
  int64_t steps = carnot_ceildiv(carnot_ceildiv(depth, kDepth), splits);
  int64_t stages = steps < tile->stages ? steps : tile->stages,
          bytes = stages * CARNOT_CUDA_TILE_STAGE(tile->rows, tile->columns),
          sums = CARNOT_CUDA_TILE_SUMS(tile->rows, tile->columns);
  return 1024 + (size_t)(bytes > sums ? bytes : sums);
}

static const char* tile_reject(carnot_problem* problem, const tile_size* tile, char* reason,
                               size_t size) {
  carnot_cuda_tile_region region;
  const char* why = carnot_cuda_tile_reject(problem, &region, reason, size);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  return reject_size(tile, region.rows, region.columns, reason, size);
}

static carnot_status* tile_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state, const tile_size* tile,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  tile_state* s = state;
  s->function = NULL;
  CARNOT_TRY(carnot_cuda_tile_shape(step, inputs, outputs, &s->step));
  carnot_cuda_product* p = &s->step.params;
  int64_t down = carnot_ceildiv(p->rows, tile->rows),
          across = carnot_ceildiv(p->filters, tile->columns);
  p->prefetch = down <= 8;
  s->grid[0] = down * across, s->grid[1] = 1;
  s->grid[2] = s->grid[0] ? splits_of(cuda, tile, s->grid[0], p->depth) : 1;
  s->shared_bytes = shared_bytes_of(tile, p->depth, s->grid[2]);
  char name[32];
  snprintf(name, sizeof(name), "tile_%dx%d_%s", tile->rows, tile->columns,
           carnot_cuda_type(outputs[0].format.dtype));
  CARNOT_TRY(carnot_cuda_kernel(cuda, name, &s->function));
  return carnot_cuda_check(
      cuda,
      cuda->cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               (int)shared_bytes_of(tile, INT32_MAX, 1)),
      "cuFuncSetAttribute");
}

static carnot_status* tile_run(const carnot_step_view* step, tile_state* s,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               const tile_size* tile) {
  carnot_cuda_tile_bind(step, inputs, outputs, &s->step);
  const int64_t cluster[3] = {1, 1, s->grid[2]};
  if (s->grid[0])
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid, (unsigned)tile->threads,
                                           cluster, s->shared_bytes, &s->step.params));
  return carnot_cuda_chain_run(step, &s->step.chain, inputs, outputs);
}

#define TILE_ROW(height, width, stages) \
  CARNOT_CUDA_TILE_ROW(tile, height, width, stages, CARNOT_CUDA_TILE_THREADS(height))
CARNOT_CUDA_TILES(TILE_ROW)
