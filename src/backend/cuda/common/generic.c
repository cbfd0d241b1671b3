// Tactics of generic kernels: rejection, parameters and launch.
#include "backend/cuda/common/generic.h"

#include <string.h>

static const carnot_operand kAbsent = {.format.dtype = CARNOT_DTYPE_INVALID};

const carnot_operand* carnot_cuda_output(const carnot_step_view* step,
                                         const carnot_operand* outputs, uint32_t i) {
  uint32_t k = carnot_step_output(step, &step->region->nodes[0], i);
  return k == CARNOT_PLAN_NONE ? &kAbsent : &outputs[k];
}

static int number_of(carnot_dtype dtype) {
  switch (dtype) {
#define NUMBER(NAME) \
  case CARNOT_DTYPE_##NAME: return CARNOT_CUDA_##NAME;
    CARNOT_CUDA_ELEMENT_TYPES(NUMBER)
#undef NUMBER
    default: return -1;
  }
}
static bool takes_packed(carnot_op op) {
  return op == CARNOT_OP_CAST || op == CARNOT_OP_QUANTIZE_LINEAR ||
         op == CARNOT_OP_DEQUANTIZE_LINEAR;
}

static const char* check_type(const carnot_operand_desc* t, bool packed, char* reason,
                              size_t size) {
  if (t->kind == CARNOT_VALUE_UNKNOWN) return NULL;  // absent
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (t->rank > CARNOT_CUDA_RANK)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes up to %d", t->rank,
                                     CARNOT_CUDA_RANK);
  if (number_of(t->format.dtype) < 0 || (!packed && carnot_dtype_bits(t->format.dtype) < 8))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(t->format.dtype));
  return NULL;
}

const char* carnot_cuda_generic_reject(carnot_problem* problem, carnot_op op, uint32_t host,
                                       char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, op)) return "";
  if (problem->input_count > CARNOT_CUDA_GENERIC_INPUTS ||
      problem->output_count > CARNOT_CUDA_GENERIC_OUTPUTS)
    return carnot_cuda_reject_reason(reason, size, "%u operands", problem->input_count);
  carnot_cuda_want_row_major(problem);
  const char* why = NULL;
  for (uint32_t i = 0; i < problem->input_count && !why; i++) {
    uint32_t local = problem->region->nodes[0].inputs[i];
    if (local != i && local != CARNOT_PLAN_NONE) return "the operands have another order";
    why = check_type(&problem->inputs[i], takes_packed(op), reason, size);
    if (host >> i & 1) problem->inputs[i].format.memory = CARNOT_MEMORY_HOST;
  }
  for (uint32_t i = 0; i < problem->output_count && !why; i++)
    why = check_type(&problem->outputs[i], takes_packed(op), reason, size);
  return why;
}

const char* carnot_cuda_generic_op_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_cuda_generic_config* config = problem->tactic->config;
  return carnot_cuda_generic_reject(problem, problem->tactic->anchor,
                                    config ? config->host_inputs : 0, reason, size);
}

const carnot_operand* carnot_cuda_optional(const carnot_step_view* step,
                                           const carnot_operand* inputs, uint32_t i) {
  return i < step->input_count ? &inputs[i] : &kAbsent;
}

carnot_status* carnot_cuda_expect(const carnot_operand* t, const char* what, int64_t wanted) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  CARNOT_CHECK(!t->format.dtype || carnot_cuda_count(t) == wanted, INVALID_ARGUMENT,
               "%s has %lld elements; %lld are required", what, (long long)carnot_cuda_count(t),
               (long long)wanted);
  return NULL;
}

carnot_status* carnot_cuda_axis(const carnot_step_view* step, const char* name, int rank,
                                int* out_axis) {
  const carnot_plan_node* node = &step->region->nodes[0];
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, name);
  if (axis < 0) axis += rank;
  CARNOT_CHECK((axis >= 0 && axis < rank) || (rank == 0 && axis >= -1), INVALID_MODEL,
               "%s is %lld, the rank %d", name, (long long)axis, rank);
  *out_axis = rank ? (int)axis : 0;
  return NULL;
}

carnot_status* carnot_cuda_host_number(const carnot_operand* operand, int64_t at, double* out) {
  CARNOT_CHECK(operand->format.memory == CARNOT_MEMORY_HOST && operand->data &&
                   at < carnot_dims_count(operand->dims, operand->rank),
               INVALID_MODEL, "element %lld of a list is not in host memory when shapes are set",
               (long long)at);
  *out = carnot_load_f64(operand->format.dtype, operand->data, (size_t)at);
  return NULL;
}

static carnot_status* set_type(const carnot_operand* t, int* out) {
  int type = number_of(t->format.dtype);
  CARNOT_CHECK(type >= 0 || t->format.dtype == CARNOT_DTYPE_INVALID, INVALID_MODEL,
               "no kernel for %s", carnot_dtype_name(t->format.dtype));
  *out = type < 0 ? 0 : type;
  return NULL;
}

// The greatest common divisor with 8.
static int gcd8(int bits) { return bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2; }

carnot_status* carnot_cuda_generic_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs,
                                         carnot_cuda_kernel_id kernel, int64_t count,
                                         const void* params, size_t bytes,
                                         carnot_cuda_generic_state* out) {
  CARNOT_CHECK(step->input_count <= CARNOT_CUDA_GENERIC_INPUTS &&
                   step->output_count <= CARNOT_CUDA_GENERIC_OUTPUTS &&
                   bytes <= sizeof(out->params),
               INVALID_MODEL, "%u operands", step->input_count);
  int needed = carnot_op_get(step->region->nodes[0].op)->min_inputs;
  for (int i = 0; i < needed; i++)
    CARNOT_CHECK(i < (int)step->input_count && inputs[i].format.dtype, INVALID_MODEL,
                 "operand %d is absent", i);
  *out = (carnot_cuda_generic_state){.count = count};
  memcpy(out->params, params, bytes);
  carnot_cuda_generic_io* io = (carnot_cuda_generic_io*)out->params;
  io->count = count;
  io->together = outputs[0].format.dtype ? 8 / gcd8(carnot_dtype_bits(outputs[0].format.dtype)) : 1;
  for (uint32_t i = 0; i < step->input_count; i++)
    CARNOT_TRY(set_type(&inputs[i], &io->in_type[i]));
  for (uint32_t i = 0; i < CARNOT_CUDA_GENERIC_OUTPUTS; i++) {
    const carnot_operand* t = carnot_cuda_output(step, outputs, i);
    CARNOT_TRY(set_type(t, &io->out_type[i]));
    CARNOT_TRY(carnot_cuda_on_device(t, 1));
  }
  if (kernel == CARNOT_CUDA_KERNEL_NONE) return NULL;
  return carnot_cuda_kernel(carnot_cuda_of_step(step), kernel, &out->function);
}

void carnot_cuda_generic_bind(const carnot_step_view* step, const carnot_operand* inputs,
                              const carnot_operand* outputs, void* workspace,
                              carnot_cuda_generic_io* io) {
  io->scratch = workspace;
  for (uint32_t i = 0; i < step->input_count; i++)
    io->in[i] = inputs[i].format.memory == CARNOT_MEMORY_DEVICE ? inputs[i].data : NULL;
  for (uint32_t i = 0; i < CARNOT_CUDA_GENERIC_OUTPUTS; i++)
    io->out[i] = carnot_cuda_output(step, outputs, i)->data;
}

carnot_status* carnot_cuda_generic_run(const carnot_step_view* step, void* state,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       void* workspace, carnot_executor* executor) {
  (void)executor;
  carnot_cuda_generic_state* s = state;
  carnot_cuda_generic_io* io = (carnot_cuda_generic_io*)s->params;
  carnot_cuda_generic_bind(step, inputs, outputs, workspace, io);
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const bool copies = s->copied && outputs[0].data != inputs[0].data;
  if (copies)
    CARNOT_CUDA_TRY(cuda, cuMemcpyDtoDAsync_v2(carnot_cuda_address(outputs[0].data),
                                               carnot_cuda_address(inputs[0].data), s->copied,
                                               carnot_cuda_stream_of(step)->handle));
  if (s->cleared)
    CARNOT_CUDA_TRY(cuda, cuMemsetD8Async(carnot_cuda_address(outputs[0].data), 0, s->cleared,
                                          carnot_cuda_stream_of(step)->handle));
  if (!s->count) return NULL;
  const int64_t threads = carnot_ceildiv(s->count, io->together);
  const int64_t blocks = s->blocks ? s->count : carnot_ceildiv(threads, CARNOT_CUDA_THREADS);
  const int64_t grid[3] = {blocks, 1, 1};
  return (copies || s->cleared ? carnot_cuda_launch_after : carnot_cuda_launch)(
      step, s->function, grid, CARNOT_CUDA_THREADS, s->params);
}

carnot_status* carnot_cuda_check_index(const carnot_operand* t) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  CARNOT_CHECK(carnot_dtype_is_integer(t->format.dtype), INVALID_MODEL, "indices of %s",
               carnot_dtype_name(t->format.dtype));
  return NULL;
}

// The result begins as a copy of the input.
carnot_status* carnot_cuda_check_copied(const carnot_operand* x, const carnot_operand* updates,
                                        const carnot_operand* y) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(updates, 1));
  CARNOT_CHECK(x->format.dtype == y->format.dtype && x->format.dtype == updates->format.dtype &&
                   carnot_cuda_count(x) == carnot_cuda_count(y),
               INVALID_ARGUMENT, "input, updates and result differ in type or size");
  return NULL;
}
