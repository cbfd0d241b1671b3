// Casts between integers, truth values, float32 and float64.
#include "backend/cpu/common/cpu.h"

// Whether the kernel takes |dtype|, and what it calls it.
static bool type_of(carnot_dtype dtype, carnot_cast_type* out) {
  const int bits = carnot_dtype_bits(dtype);
  *out = (carnot_cast_type){.is_float = dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F64,
                            .is_signed = carnot_dtype_kind_of(dtype) == CARNOT_KIND_INT,
                            .is_truth = dtype == CARNOT_DTYPE_BOOL,
                            .bytes_log2 = (int8_t)(bits == 8    ? 0
                                                   : bits == 16 ? 1
                                                   : bits == 32 ? 2
                                                                : 3)};
  return out->is_float || ((carnot_dtype_is_integer(dtype) || out->is_truth) &&
                           (bits == 8 || bits == 16 || bits == 32 || bits == 64));
}

static bool has_loop(carnot_dtype from, carnot_dtype to) {
  carnot_cast_type x, y;
  return type_of(from, &x) && type_of(to, &y) &&
         carnot_cpu_kernels_of(CARNOT_ISA_SCALAR)->cast(x, y, NULL, NULL, 0);
}

static const char* cast_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CAST || problem->region->node_count != 1) return "";
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  if (x->kind != CARNOT_VALUE_TENSOR || !has_loop(x->format.dtype, y->format.dtype))
    return carnot_because(reason, size, "no loop from %s to %s", carnot_dtype_name(x->format.dtype),
                          carnot_dtype_name(y->format.dtype));
  problem->outputs[0].format.layout = x->format.layout;  // elements stay where they are
  return NULL;
}

static carnot_status* cast_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->region->node_count == 1 && step->region->nodes[0].op == CARNOT_OP_CAST,
               INVALID_MODEL, "the step holds no cast");
  return NULL;
}

enum { kPart = 1 << 15 };

static carnot_status* cast_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  (void)step;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_CHECK(has_loop(x->format.dtype, y->format.dtype) && x->rank == y->rank, INVALID_MODEL,
               "no loop from %s to %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
  int64_t extent = 1;  // dense in some order, the same on both sides
  for (int d = 0; d < x->rank; d++) {
    CARNOT_CHECK(x->dims[d] == y->dims[d] && (x->dims[d] == 1 || x->strides[d] == y->strides[d]),
                 INVALID_MODEL, "dimension %d lies differently on both sides", d);
    if (x->dims[d] > 1) extent += (x->dims[d] - 1) * x->strides[d];
  }
  *(int64_t*)memory = carnot_dims_count(x->dims, x->rank);
  CARNOT_CHECK(extent == *(int64_t*)memory || *(int64_t*)memory == 0, INVALID_MODEL,
               "the elements are not dense");
  return NULL;
}

typedef struct cast_run {
  carnot_cast_fn* kernel;
  carnot_cast_type from, to;
  const char* x;
  char* y;
  int64_t count, x_bytes, y_bytes;
} cast_run;

static void cast_part(void* argument, int64_t part) {
  const cast_run* run = argument;
  int64_t at = part * kPart;
  run->kernel(run->from, run->to, run->x + at * run->x_bytes, run->y + at * run->y_bytes,
              carnot_min_i64(kPart, run->count - at));
}

static carnot_status* cast_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  cast_run run = {.kernel = carnot_cpu_kernels_of(step->machine_isa)->cast,
                  .x = inputs[0].data,
                  .y = outputs[0].data,
                  .count = *(int64_t*)memory,
                  .x_bytes = carnot_dtype_bits(inputs[0].format.dtype) / 8,
                  .y_bytes = carnot_dtype_bits(outputs[0].format.dtype) / 8};
  type_of(inputs[0].format.dtype, &run.from);
  type_of(outputs[0].format.dtype, &run.to);
  carnot_executor_parallel(executor, carnot_ceildiv(run.count, kPart), cast_part, &run);
  return NULL;
}

// The results are those of every level: one tactic, which uses the machine's best.
const carnot_tactic carnot_tactic_cast = {.name = "cpu_cast",
                                          .anchor = CARNOT_OP_CAST,
                                          .isa = CARNOT_ISA_SCALAR,
                                          .numerics = CARNOT_NUMERICS_EXACT,
                                          .reject = cast_reject,
                                          .validate = cast_validate,
                                          .configure = cast_configure,
                                          .run = cast_run_all};
