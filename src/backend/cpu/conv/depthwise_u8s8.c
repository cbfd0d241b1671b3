// Quantized depthwise convolution in integers.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/int8_conv.h"
#include "kernel/cpu/conv/depthwise_u8s8.h"

enum { kShiftOfSigned = 128 };  // the kernel adds it to signed activations
static const carnot_int8_conv_limits kLimits = {.rank = 2, .taps = CARNOT_DEPTHWISE_INT8_MAX_TAPS};

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_int8_conv_params p;
  const char* why = carnot_int8_conv_read(problem, &kLimits, &p, reason, size);
  if (why) return why;
  if (p.group == p.channels && p.filters == p.channels) return NULL;
  return carnot_because(reason, size, "group is %lld of %lld channels and %lld filters",
                        (long long)p.group, (long long)p.channels, (long long)p.filters);
}

static size_t packed_bytes(const carnot_tactic* tactic, const carnot_int8_conv_params* p) {
  (void)tactic;
  return (size_t)carnot_packed_t4n32_bytes(carnot_int8_conv_taps(p), p->channels);
}

static carnot_status* depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  int8_t* weights;
  void* packed;
  CARNOT_TRY(carnot_int8_conv_prepare(problem, &kLimits, kShiftOfSigned, out, &weights));
  const carnot_int8_conv_params* p = out->params;
  const int64_t taps = carnot_int8_conv_taps(p);
  carnot_status* status = carnot_arena_try(out->arena, packed_bytes(problem->tactic, p) + 64, 1,
                                           "packed weights", &packed);
  if (!status) {
    packed = (void*)carnot_align_up((uintptr_t)packed, 64);
    carnot_pack_t4n32_s8(taps, p->channels, weights, 1, taps, packed);
    out->constants[CARNOT_INT8_WEIGHTS].packing = "t4n32 s8";
    out->constants[CARNOT_INT8_WEIGHTS].data = packed;
    out->constants[CARNOT_INT8_WEIGHTS].bytes = packed_bytes(problem->tactic, p);
  }
  free(weights);
  return status;
}

static carnot_status* depthwise_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_int8_conv_validate(step, &kLimits, packed_bytes));
  const carnot_int8_conv_params* p = step->params;
  CARNOT_CHECK(p->group == p->channels && p->filters == p->channels, INVALID_MODEL,
               "%lld groups of %lld channels are not depthwise", (long long)p->group,
               (long long)p->channels);
  return NULL;
}

typedef struct depthwise_state {
  carnot_window_geometry geometry;
  int64_t row_count, rows_per_part;
} depthwise_state;

static carnot_status* depthwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  depthwise_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_int8_conv_configure(step, inputs, outputs, &s->geometry));
  const carnot_window_geometry* geometry = &s->geometry;
  s->row_count = geometry->n * geometry->p;
  s->rows_per_part =
      carnot_rows_per_part(s->row_count, geometry->q * geometry->c * geometry->r * geometry->s);
  return NULL;
}

typedef struct depthwise_run {
  const carnot_cpu_kernels* kernels;
  const depthwise_state* s;
  carnot_depthwise_u8s8 conv;
} depthwise_run;

static void depthwise_part(void* argument, int64_t part) {
  const depthwise_run* run = argument;
  const int64_t row0 = part * run->s->rows_per_part;
  run->kernels->depthwise_u8s8(&run->conv, row0,
                               carnot_min_i64(row0 + run->s->rows_per_part, run->s->row_count));
}

static carnot_status* depthwise_run_all(const carnot_step_view* step, void* memory,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  (void)workspace;
  const depthwise_state* s = memory;
  const carnot_int8_conv_params* p = step->params;
  const carnot_window_geometry* geometry = &s->geometry;
  depthwise_run run = {.kernels = carnot_int8_kernels(step), .s = s};
  run.conv = (carnot_depthwise_u8s8){
      CARNOT_WINDOW_FIELDS(geometry),
      .c = geometry->c,
      .src = inputs[p->region.x].data,
      .src_n = geometry->src_n,
      .src_h = geometry->src_h,
      .src_w = geometry->src_w,
      .src_signed = p->region.x_signed,
      .weights = step->constants[CARNOT_INT8_WEIGHTS],
      .border = step->constants[CARNOT_INT8_BORDER],
      .dst = outputs[0].data,
      .ld = geometry->ld,
      .epilogue = carnot_int8_region_epilogue(&p->region, outputs[0].rank - 1, step, inputs)};
  carnot_executor_parallel(executor, carnot_ceildiv(s->row_count, s->rows_per_part), depthwise_part,
                           &run);
  return NULL;
}

CARNOT_CPU_TACTICS(depthwise_u8s8, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                   .reject = depthwise_reject, .prepare = depthwise_prepare,
                   .validate = depthwise_validate, .uses_input = carnot_int8_conv_uses_input,
                   .configure = depthwise_configure, .run = depthwise_run_all,
                   .work = carnot_int8_region_work);
