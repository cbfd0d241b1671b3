// Packed convolution weights: [K,taps,C], and chunks of 32 filters in the order of
// conv_small_channels.cuh.
#include <string.h>

#include "backend/cuda/conv/conv.h"
#include "kernel/cuda/conv/conv_small_channels_params.h"

carnot_status* carnot_cuda_conv_pack(const carnot_operand_desc* w, int64_t groups, int64_t joined,
                                     carnot_prepared* out) {
  int64_t k = w->dims[0], c = w->dims[1], taps = carnot_dims_count(w->dims + 2, w->rank - 2),
          wide = c * joined;
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(k * wide * taps), 2, "packed weights", &memory));
  const uint16_t* from = w->tensor->data;
  uint16_t* to = memory;
  memset(to, 0, (size_t)(k * wide * taps) * 2);
  for (int64_t i = 0; i < k; i++) {
    int64_t block = i / (k / groups) % joined;  // among the joined groups
    for (int64_t t = 0; t < taps; t++, to += wide)
      for (int64_t j = 0; j < c; j++) to[block * c + j] = from[(i * c + j) * taps + t];
  }
  out->constants[out->constant_count].packing =
      joined == 1 ? "krsc f16" : "krsc f16, groups joined";
  out->constants[out->constant_count].data = memory;
  out->constants[out->constant_count++].bytes = (size_t)(k * wide * taps) * 2;
  return NULL;
}

carnot_status* carnot_cuda_conv_pack_chunks(const carnot_operand_desc* w, int chunks, int steps,
                                            const int32_t (*offsets)[4][4], carnot_prepared* out) {
  int64_t count = carnot_dims_count(w->dims + 1, w->rank - 1);
  size_t bytes = (size_t)CARNOT_CUDA_PACKED_CHUNK_BYTES(chunks, steps);
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &memory));
  const uint16_t* from = w->tensor->data;
  uint16_t* to = memory;
  for (int chunk = 0; chunk < chunks; chunk++)
    for (int s = 0; s < steps; s++)
      for (int i = 0; i < 128; i++) {  // two B fragments of 32 lanes, twice
        int j = i / 64 * 2 + i % 2, g = i / 2 % 32 / 4, t = i / 2 % 4;
        int64_t filter = chunk * 32 + g / 2 * 8 + j * 2 + g % 2;
        for (int k = 0; k < 4; k++)
          *to++ = filter < w->dims[0] && offsets[s][t][k] >= 0
                      ? from[filter * count + offsets[s][t][k]]
                      : 0;
      }
  out->constants[out->constant_count].packing = "k32 mma f16";
  out->constants[out->constant_count].data = memory;
  out->constants[out->constant_count++].bytes = bytes;
  return NULL;
}

carnot_status* carnot_cuda_conv_packed_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->constant_count > 0, INVALID_MODEL, "no packed weights");
  return NULL;
}

bool carnot_cuda_conv_packed_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = carnot_conv_node(step->region);
  return node->input_count < 2 || node->inputs[1] != input;
}
