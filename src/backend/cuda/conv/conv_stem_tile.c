// The tiles of a stem convolution.
#include "backend/cuda/conv/conv_stem.h"

void carnot_cuda_conv_stem_tile(int width, carnot_cuda_conv_stem_params* p) {
  int64_t best = INT64_MAX;
  for (int columns = 1; columns <= CARNOT_CUDA_CONV_STEM_TILE && columns <= p->out_columns;
       columns++) {
    int rows = CARNOT_CUDA_CONV_STEM_TILE / columns;
    if (rows > p->out_rows) rows = p->out_rows > 0 ? p->out_rows : 1;
    int across = (columns - 1) * p->step[1] + width;
    int most = CARNOT_CUDA_CONV_STEM_PATCH / across;
    if (most < p->kernel[0]) break;
    if ((most - p->kernel[0]) / p->step[0] + 1 < rows)
      rows = (most - p->kernel[0]) / p->step[0] + 1;
    int down = (rows - 1) * p->step[0] + p->kernel[0];
    int64_t tiles_down = carnot_ceildiv(p->out_rows, rows),
            tiles_across = carnot_ceildiv(p->out_columns, columns);
    int64_t cost = tiles_down * tiles_across * 2 * CARNOT_CUDA_CONV_STEM_PATCH + down * across;
    if (cost >= best) continue;
    best = cost;
    p->tile_rows = rows, p->tile_columns = columns;
    p->patch_rows = down, p->patch_columns = across;
    p->tiles_down = (int)tiles_down, p->tiles_across = (int)tiles_across;
  }
}
