// A strided copy of elements of whole bytes, in parts over threads.
#include "backend/cpu/copy/strided_copy.h"

// ---- a copy, cut in parts along its longest outer axis ----

typedef struct copy_run {
  const carnot_cpu_kernels* kernels;
  carnot_copy_desc copy;
  const char* src;
  char* dst;
  int axis;
  int64_t per_part;
} copy_run;

static void copy_part(void* argument, int64_t part) {
  const copy_run* run = argument;
  carnot_copy_desc copy = run->copy;
  int64_t first = part * run->per_part;
  copy.sizes[run->axis] = carnot_min_i64(run->per_part, run->copy.sizes[run->axis] - first);
  run->kernels->copy_strided(&copy,
                             run->src + first * copy.src_strides[run->axis] * copy.element_bytes,
                             run->dst + first * copy.dst_strides[run->axis] * copy.element_bytes);
}

void carnot_cpu_copy(const carnot_step_view* step, carnot_executor* executor, int rank,
                     const int64_t* dims, int element_bytes, const void* src,
                     const int64_t* src_strides, void* dst, const int64_t* dst_strides) {
  copy_run run = {.kernels = carnot_cpu_kernels_of(step->machine_isa), .src = src, .dst = dst};
  run.copy = (carnot_copy_desc){.element_bytes = element_bytes,
                                .rank = rank ? rank : 1,
                                .sizes = {1},
                                .src_strides = {1},
                                .dst_strides = {1}};
  int64_t count = 1, longest = 0;
  for (int d = 0; d < rank; d++) {
    run.copy.sizes[d] = dims[d];
    run.copy.src_strides[d] = src_strides[d];
    run.copy.dst_strides[d] = dst_strides[d];
    count *= dims[d];
    // The axis that the result is densest in stays whole.
    if (dst_strides[d] > 1 && dims[d] > longest) longest = dims[d], run.axis = d;
  }
  int64_t parts = carnot_min_i64(longest, count * element_bytes >> 16);
  run.per_part =
      parts > 1 ? carnot_ceildiv(run.copy.sizes[run.axis], parts) : run.copy.sizes[run.axis];
  if (run.per_part > 0)
    carnot_executor_parallel(executor, carnot_ceildiv(run.copy.sizes[run.axis], run.per_part),
                             copy_part, &run);
}

const char* carnot_cpu_whole_bytes(const carnot_operand_desc* t, char* reason, size_t size) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (!carnot_cpu_is_whole(t->format.dtype))
    return carnot_because(reason, size, "no copy for %s", carnot_dtype_name(t->format.dtype));
  return NULL;
}

const char* carnot_cpu_moves_by_index(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, problem->tactic->anchor);
  for (uint32_t i = 0; !why && i < problem->input_count; i++)
    why = carnot_cpu_whole_bytes(&problem->inputs[i], reason, size);
  if (why) return why;
  const carnot_dtype index = problem->inputs[1].format.dtype;
  if (!carnot_cpu_is_index(index))
    return carnot_because(reason, size, "indices of %s", carnot_dtype_name(index));
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

const char* carnot_cpu_moves_bytes(const carnot_problem* problem, char* reason, size_t size) {
  const carnot_dtype from = problem->inputs[0].format.dtype, to = problem->outputs[0].format.dtype;
  const char* why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  return why || from == to ? why
                           : carnot_because(reason, size, "%s is stored as %s",
                                            carnot_dtype_name(from), carnot_dtype_name(to));
}

carnot_status* carnot_cpu_check_types(const carnot_operand* a, const carnot_operand* b) {
  CARNOT_CHECK(a->format.dtype == b->format.dtype && a->rank == b->rank, INVALID_ARGUMENT,
               "operands of %s and %s, ranks %d and %d", carnot_dtype_name(a->format.dtype),
               carnot_dtype_name(b->format.dtype), a->rank, b->rank);
  return NULL;
}
