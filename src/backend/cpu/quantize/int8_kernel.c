// Packing and calls of the two kinds of integer kernels.
#include "backend/cpu/quantize/int8_kernel.h"

const char carnot_int8_tiles[] = "tiles";

size_t carnot_int8_group_bytes(const carnot_tactic* tactic, const carnot_int8_weights_shape* s) {
  return (size_t)(carnot_int8_uses_tiles(tactic) ? carnot_packed_k4n16d64_bytes(s->taps, s->c, s->n)
                                                 : carnot_packed_k4n16_bytes(s->taps, s->c, s->n));
}

carnot_status* carnot_int8_pack(const carnot_tactic* tactic, const carnot_int8_weights_shape* s,
                                const int8_t* weights, int64_t stride_n, int64_t stride_tap,
                                int64_t stride_c, int index, carnot_prepared* out) {
  void* data;
  const bool tiles = carnot_int8_uses_tiles(tactic);
  const size_t group = carnot_int8_group_bytes(tactic, s), bytes = group * (size_t)s->groups;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &data));
  int8_t* packed = (void*)carnot_align_up((uintptr_t)data, 64);
  for (int64_t g = 0; g < s->groups; g++)
    (tiles ? carnot_pack_k4n16d64_s8 : carnot_pack_k4n16_s8)(
        s->taps, s->c, s->n, weights + g * s->n * s->c * s->taps, stride_n, stride_tap, stride_c,
        packed + (size_t)g * group);
  out->constants[index].packing = tiles ? "k4n16d64 s8" : "k4n16 s8";
  out->constants[index].data = packed;
  out->constants[index].bytes = bytes;
  return NULL;
}

bool carnot_int8_tiles_fit(const carnot_conv2d_u8s8* conv) {
  const carnot_conv2d_s8_tiles call = {.conv = *conv};
  return carnot_conv2d_s8_tiles_fits(&call);
}

const char* carnot_int8_tiles_reject(const carnot_conv2d_u8s8* conv, int64_t groups, char* reason,
                                     size_t size) {
  enum { kLeastChannels = 16, kMostGroups = 8 };
  if (conv->c < kLeastChannels || groups > kMostGroups)
    return carnot_because(reason, size,
                          "%lld channels in %lld groups, takes %d and more in up to %d",
                          (long long)conv->c, (long long)groups, kLeastChannels, kMostGroups);
  return carnot_int8_tiles_fit(conv) ? NULL : "the pixels under the window do not fit in L2";
}

carnot_status* carnot_int8_tiles_check(const carnot_conv2d_u8s8* conv) {
  CARNOT_CHECK(carnot_int8_tiles_fit(conv), INVALID_MODEL,
               "the pixels under the window do not fit in L2");
  return NULL;
}

const char* carnot_int8_gemm_tiles_reject(const carnot_operand_desc* a, char* reason, size_t size) {
  enum { kLeastTileRows = 16 };
  int64_t rows = 1;
  for (int d = 0; d + 1 < a->rank; d++) rows = a->dims[d] < 0 || rows < 0 ? -1 : rows * a->dims[d];
  return rows < 0 || rows >= kLeastTileRows
             ? NULL
             : carnot_because(reason, size, "%lld rows, takes %d and more", (long long)rows,
                              kLeastTileRows);
}

const carnot_cpu_kernels* carnot_int8_kernels(const carnot_step_view* step) {
  return carnot_cpu_kernels_of(carnot_cpu_step_isa(step));
}

// Cycles of a part of |rows| rows of pixels, or |rows| pixels of a 1x1 window, by |columns|
// channels: tiles or what is stored beside them, the copy of pixels, and weights from L3.
static double part_cycles(const carnot_conv2d_u8s8* c, bool copies, int64_t rows, int64_t columns) {
  enum { kStep = 32, kTileCycles = 64, kStoreCycles = 300, kStartCycles = 600 };
  const double copied_bytes_a_cycle = 12, weight_bytes_a_cycle = 16;
  const int64_t depth = carnot_align_up((size_t)c->c, 64), tiles = c->r * c->s * (depth / 64),
                gap = (c->s - 1) * c->dilation_w / c->stride_w,
                pixels = copies ? rows * (c->q + gap) - gap : rows,
                input_rows = (rows - 1) * c->stride_h + (c->r - 1) * c->dilation_h + 1;
  const double steps = (double)(carnot_ceildiv(pixels, kStep) * carnot_ceildiv(columns, kStep));
  const double copied = copies ? (double)(input_rows * c->w * depth) : 0,
               weights = (double)(tiles * 64 * columns);
  return steps * (double)carnot_max_i64(tiles * kTileCycles, kStoreCycles) +
         copied / copied_bytes_a_cycle + weights / weight_bytes_a_cycle + kStartCycles;
}

// Cuts pixels, channels or both into up to eight parts, so that the time with two threads and that
// with eight are least in sum; of more than four threads so that their time is least. One thread
// gets one part, which prefetches weights across all columns.
static carnot_work_partition tiles_partition(const carnot_conv2d_u8s8* c, int threads) {
  enum { kRowUnit = 32, kColumnUnit = 64 };
  const bool is_few = threads <= CARNOT_FEW_THREADS;
  const int64_t most = threads == 1 ? 1 : carnot_most_parts(threads);
  const bool copies = c->r * c->s > 1 || c->stride_h > 1 || c->stride_w > 1;
  const int64_t m = c->n * c->p * c->q, row = copies ? c->q : kRowUnit,
                rows = carnot_ceildiv(m, row), units = carnot_ceildiv(c->k, kColumnUnit);
  carnot_work_partition best = {m, c->k, row, kColumnUnit, 1, 1};
  double least = 0;
  for (int64_t mp = 1; mp <= carnot_min_i64(most, rows); mp++)
    for (int64_t np = 1; np <= carnot_min_i64(most / mp, units); np++) {
      const int64_t part_rows = carnot_ceildiv(rows, mp), part_units = carnot_ceildiv(units, np),
                    n_part = carnot_min_i64(c->k, part_units * kColumnUnit),
                    m_count = carnot_ceildiv(rows, part_rows),
                    n_count = carnot_ceildiv(units, part_units), count = m_count * n_count;
      const double parts = is_few ? (double)(carnot_ceildiv(count, 2) + 1)
                                  : carnot_parts_time(threads, count),
                   time =
                       part_cycles(c, copies, copies ? part_rows : part_rows * row, n_part) * parts;
      if (least > 0 && time >= least) continue;
      least = time;
      best.m_count = m_count, best.n_count = n_count;
    }
  return best;
}

carnot_work_partition carnot_int8_conv_partition(const carnot_step_view* step,
                                                 const carnot_conv2d_u8s8* conv) {
  if (carnot_int8_uses_tiles(step->tactic)) return tiles_partition(conv, step->threads);
  return carnot_work_partition_make(carnot_cpu_step_isa(step), step->threads,
                                    conv->n * conv->p * conv->q, conv->k,
                                    conv->c * conv->r * conv->s);
}

carnot_work_partition carnot_int8_gemm_partition(const carnot_step_view* step, int64_t m, int64_t n,
                                                 int64_t k) {
  const carnot_gemm_u8s8 gemm = {.m = m, .n = n, .k = k, .lda = k};
  const carnot_conv2d_u8s8 conv = carnot_int8_conv_of_gemm(&gemm);
  return carnot_int8_conv_partition(step, &conv);
}

size_t carnot_int8_conv_workspace(const carnot_tactic* tactic, const carnot_conv2d_u8s8* conv,
                                  bool readable) {
  if (!carnot_int8_uses_tiles(tactic)) return 0;
  const carnot_conv2d_s8_tiles call = {.conv = *conv, .readable = readable};
  return carnot_align_up((size_t)carnot_conv2d_s8_tiles_scratch(&call), 64);
}

void carnot_int8_conv_call(const carnot_step_view* step, const carnot_conv2d_u8s8* conv,
                           bool readable, void* workspace, int64_t m0, int64_t m1, int64_t n0,
                           int64_t n1) {
  const carnot_cpu_kernels* kernels = carnot_int8_kernels(step);
  if (carnot_int8_uses_tiles(step->tactic)) {
    const carnot_conv2d_s8_tiles call = {.conv = *conv, .readable = readable, .scratch = workspace};
    kernels->conv2d_s8_tiles(&call, m0, m1, n0, n1);
  } else {
    kernels->conv2d_u8s8(conv, m0, m1, n0, n1);
  }
}

carnot_conv2d_u8s8 carnot_int8_conv_of_gemm(const carnot_gemm_u8s8* gemm) {
  return (carnot_conv2d_u8s8){.n = 1,
                              .h = 1,
                              .w = gemm->m,
                              .c = gemm->k,
                              .p = 1,
                              .q = gemm->m,
                              .k = gemm->n,
                              .r = 1,
                              .s = 1,
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .src = gemm->a,
                              .src_n = gemm->m * gemm->lda,
                              .src_h = gemm->m * gemm->lda,
                              .src_w = gemm->lda,
                              .src_signed = gemm->a_signed,
                              .weights = gemm->b,
                              .dst = gemm->dst,
                              .ld = gemm->ld,
                              .epilogue = gemm->epilogue};
}

static size_t part_workspace(const carnot_tactic* tactic, int64_t m, int64_t k) {
  const carnot_gemm_u8s8 gemm = {.m = m, .k = k, .lda = k};
  const carnot_conv2d_u8s8 conv = carnot_int8_conv_of_gemm(&gemm);
  return carnot_int8_conv_workspace(tactic, &conv, /*readable=*/false);
}

size_t carnot_int8_gemm_workspace(const carnot_tactic* tactic,
                                  const carnot_work_partition* partition, int64_t k) {
  return part_workspace(tactic, partition->m, k) * (size_t)carnot_work_partition_count(partition);
}

typedef struct gemm_run {
  const carnot_step_view* step;
  const carnot_work_partition* partition;
  const carnot_gemm_u8s8* gemm;
  char* workspace;
} gemm_run;

static void gemm_part(void* argument, int64_t part) {
  const gemm_run* run = argument;
  carnot_gemm_u8s8 gemm = *run->gemm;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(run->partition, part, &m0, &m1, &n0, &n1);
  carnot_int8_part_range(&gemm.epilogue, part);
  if (!carnot_int8_uses_tiles(run->step->tactic)) {
    carnot_int8_kernels(run->step)->gemm_u8s8(&gemm, m0, m1, n0, n1);
    return;
  }
  const carnot_conv2d_u8s8 conv = carnot_int8_conv_of_gemm(&gemm);
  const size_t bytes = part_workspace(run->step->tactic, gemm.m, gemm.k);
  carnot_int8_conv_call(run->step, &conv, /*readable=*/false,
                        run->workspace + (size_t)carnot_executor_scratch(part) * bytes, m0, m1, n0,
                        n1);
}

void carnot_int8_gemm_run(const carnot_step_view* step, const carnot_work_partition* partition,
                          const carnot_gemm_u8s8* gemm, void* workspace,
                          carnot_executor* executor) {
  gemm_run run = {step, partition, gemm, workspace};
  carnot_executor_parallel(executor, carnot_work_partition_count(partition), gemm_part, &run);
}
