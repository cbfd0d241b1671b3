// Quantized convolution as an implicit GEMM accumulated in INT32, with its whole epilogue.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/int8_conv.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

enum { kShiftOfSigned = 128 };  // the kernel adds it to signed activations

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_int8_conv_params p;
  return carnot_int8_conv_read(problem, CARNOT_INT8_MAX_TAPS, &p, reason, size);
}

static carnot_int8_conv_shape shape_of(const carnot_int8_conv_params* p) {
  return (carnot_int8_conv_shape){p->group, p->channels, p->filters, carnot_int8_conv_taps(p)};
}
static size_t packed_bytes(const carnot_int8_conv_params* p) {
  const carnot_int8_conv_shape shape = shape_of(p);
  return carnot_int8_conv_group_bytes(&shape) * (size_t)p->group;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  int8_t* weights;
  void* packed;
  CARNOT_TRY(
      carnot_int8_conv_prepare(problem, CARNOT_INT8_MAX_TAPS, kShiftOfSigned, out, &weights));
  const size_t bytes = packed_bytes(out->params);
  carnot_status* status = carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &packed);
  if (!status) {
    packed = (void*)carnot_align_up((uintptr_t)packed, 64);
    const carnot_int8_conv_shape shape = shape_of(out->params);
    carnot_int8_conv_pack(&shape, weights, packed);
    out->constants[CARNOT_INT8_WEIGHTS].packing = "k4n16 s8";
    out->constants[CARNOT_INT8_WEIGHTS].data = packed;
    out->constants[CARNOT_INT8_WEIGHTS].bytes = bytes;
  }
  free(weights);
  return status;
}

static carnot_status* conv_validate(const carnot_step_view* step) {
  return carnot_int8_conv_validate(step, CARNOT_INT8_MAX_TAPS, packed_bytes);
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;
} conv_state;

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* s = memory;
  const carnot_int8_conv_params* p = step->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_int8_conv_configure(step, inputs, outputs, &s->geometry));
  const carnot_window_geometry* geometry = &s->geometry;
  s->partition =
      carnot_int8_partition(step, geometry->n * geometry->p * geometry->q, p->filters / p->group,
                            p->channels / p->group * geometry->r * geometry->s);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const carnot_int8_conv_params* p;
  const conv_state* s;
  const carnot_step_view* step;
  const char* x;
  char* y;
  int64_t y_bytes, residual_bytes;  // of an element
  carnot_int8_epilogue epilogue;
} conv_run;

// The epilogue of the filters from |first| on.
static carnot_int8_epilogue epilogue_at(const conv_run* run, int64_t first) {
  carnot_int8_epilogue e = run->epilogue;
  e.bias += first;
  e.scale += first;
  if (e.residual) e.residual = (const char*)e.residual + first * run->residual_bytes;
  return e;
}

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_int8_conv_params* p = run->p;
  const carnot_window_geometry* geometry = &run->s->geometry;
  const int64_t parts = carnot_work_partition_count(&run->s->partition), group = part / parts,
                c = p->channels / p->group, k = p->filters / p->group;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part % parts, &m0, &m1, &n0, &n1);
  const int8_t* weights = run->step->constants[CARNOT_INT8_WEIGHTS];
  const carnot_int8_conv_shape shape = shape_of(p);
  carnot_conv2d_u8s8 conv = {
      CARNOT_WINDOW_FIELDS(geometry),
      .c = c,
      .k = k,
      .src = run->x + group * c,
      .src_n = geometry->src_n,
      .src_h = geometry->src_h,
      .src_w = geometry->src_w,
      .src_signed = p->region.x_signed,
      .weights = weights + (size_t)group * carnot_int8_conv_group_bytes(&shape),
      .border = run->step->constants[CARNOT_INT8_BORDER],
      .dst = run->y + group * k * run->y_bytes,
      .ld = geometry->ld,
      .epilogue = epilogue_at(run, group * k)};
  run->kernels->conv2d_u8s8(&conv, m0, m1, n0, n1);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  const carnot_int8_conv_params* p = step->params;
  conv_run run = {
      .kernels = carnot_int8_region_kernels(step),
      .p = p,
      .s = memory,
      .step = step,
      .x = inputs[p->region.x].data,
      .y = outputs[0].data,
      .y_bytes = p->region.output == CARNOT_INT8_OUTPUT_F32 ? 4 : 1,
      .residual_bytes = p->region.residual_type == CARNOT_INT8_RESIDUAL_F32 ? 4 : 1,
      .epilogue = carnot_int8_region_epilogue(&p->region, outputs[0].rank - 1, step, inputs)};
  carnot_executor_parallel(executor, p->group * carnot_work_partition_count(&run.s->partition),
                           conv_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(conv_u8s8, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                   .reject = conv_reject, .prepare = conv_prepare, .validate = conv_validate,
                   .uses_input = carnot_int8_conv_uses_input, .configure = conv_configure,
                   .run = conv_run_all, .work = carnot_int8_region_work);
