// Reductions over adjacent axes (in memory order), of float32 and of integers and float64.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"

static int kind_of(const carnot_plan_node* node) {
  static const struct {
    const char* name;
    carnot_kernel_reduction kind;
  } kKinds[] = {{"sum", CARNOT_KERNEL_REDUCTION_SUM},
                {"mean", CARNOT_KERNEL_REDUCTION_MEAN},
                {"max", CARNOT_KERNEL_REDUCTION_MAX},
                {"min", CARNOT_KERNEL_REDUCTION_MIN},
                {"sum_square", CARNOT_KERNEL_REDUCTION_SUM_SQUARE},
                {"l1", CARNOT_KERNEL_REDUCTION_SUM_ABS},
                {"prod", CARNOT_KERNEL_REDUCTION_PRODUCT},
                {"l2", CARNOT_KERNEL_REDUCTION_L2},
                {"log_sum_exp", CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP}};
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); i++)
    if (carnot_attr_is(carnot_op_get(CARNOT_OP_REDUCE), &node->attrs, "fn", kKinds[i].name))
      return (int)kKinds[i].kind;
  return -1;
}

// The kernel of the tactic is that of integers and float64.
static const bool kNative = true;
static bool is_native(const carnot_tactic* tactic) { return tactic->config == &kNative; }

static bool has_loop(int kind, carnot_dtype dtype) {
  const carnot_reduce_native reduce = {.reduction = (carnot_kernel_reduction)kind,
                                       .type = carnot_cpu_element_type(dtype)};
  return kind >= 0 && reduce.type != CARNOT_ELEMENT_TYPE_COUNT &&
         carnot_cpu_kernels_of(CARNOT_ISA_SCALAR)->reduce_native(&reduce, 0, 0);
}

// Why the kernel of the tactic does not take the operands; NULL: it does.
static const char* reject_types(const carnot_problem* problem, int kind, char* reason,
                                size_t size) {
  const carnot_operand_desc* x = &problem->inputs[0];
  if (!is_native(problem->tactic)) {
    const char* why =
        carnot_not_f32_value(problem, x, "the input", 1, CARNOT_MAX_RANK, reason, size);
    if (why) return why;
    if (problem->outputs[0].format.dtype == CARNOT_DTYPE_BF16) return "the result is bfloat16";
    return kind < 0 ? "no kernel for this reduction" : NULL;
  }
  if (x->kind != CARNOT_VALUE_TENSOR || x->rank < 1)
    return "the input has no known rank, or is a scalar";
  if (!has_loop(kind, x->format.dtype))
    return carnot_because(reason, size, "no loop of this reduction for %s",
                          carnot_dtype_name(x->format.dtype));
  return NULL;
}

typedef struct reduce_params {
  int32_t kind;
  uint32_t axes;  // bit d: dimension d is reduced
} reduce_params;

// Dimensions in memory order, those of size 1 left out; true when the reduced ones are adjacent.
static bool adjacent(uint32_t axes, uint32_t ones, int rank, bool channels_last) {
  int changes = 0;
  bool before = false;
  for (int k = 0; k < rank; k++) {
    int d = !channels_last || k == 0 ? k : k == rank - 1 ? 1 : k + 1;
    if (ones >> d & 1) continue;
    bool reduced = axes >> d & 1;
    changes += reduced && !before;
    before = reduced;
  }
  return changes <= 1;
}

static const char* read_problem(const carnot_problem* problem, void* params, char* reason,
                                size_t size) {
  reduce_params* out = params;
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (problem->region->node_count != 1 || node->op != CARNOT_OP_REDUCE) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  *out = (reduce_params){.kind = kind_of(node)};
  const char* why = reject_types(problem, out->kind, reason, size);
  if (why) return why;
  if (problem->input_count < 2 || problem->inputs[1].kind != CARNOT_VALUE_TENSOR) {
    if (carnot_attr_int(carnot_op_get(node->op), &node->attrs, "noop_with_empty_axes"))
      return "nothing is reduced";
    out->axes = (1u << x->rank) - 1;
    return NULL;
  }
  const carnot_operand_desc* axes = &problem->inputs[1];
  if (!carnot_is_known(axes)) return "the axes are not constant";
  for (int64_t i = 0; i < carnot_tensor_count(axes->tensor); i++) {
    int64_t axis = carnot_load_i64(axes->tensor->dtype, axes->tensor->data, (size_t)i);
    axis += axis < 0 ? x->rank : 0;
    if (axis < 0 || axis >= x->rank) return "an axis is out of range";
    out->axes |= 1u << axis;
  }
  return out->axes ? NULL : "the axes are empty";
}

static const char* reduce_reject(carnot_problem* problem, char* reason, size_t size) {
  reduce_params p;
  const char* why = read_problem(problem, &p, reason, size);
  if (why) return why;
  carnot_operand_desc* x = &problem->inputs[0];
  carnot_operand_desc* y = &problem->outputs[0];
  bool last = x->format.layout == CARNOT_LAYOUT_CHANNELS_LAST && x->rank > 2;
  uint32_t ones = 0;  // whatever the shapes are
  for (int d = 0; d < x->rank; d++) ones |= (uint32_t)(x->min[d] == 1 && x->max[d] == 1) << d;
  if (!adjacent(p.axes, ones, x->rank, last)) {
    if (!adjacent(p.axes, ones, x->rank, false)) return "the reduced axes are not adjacent";
    last = false;
  }
  // The dimensions that remain must be stored in order: the channels alone, or none of them.
  bool keeps = y->rank == x->rank;
  bool swapped = !(p.axes & 2) && (p.axes | 3) != (1u << x->rank) - 1;
  if (last && !keeps && swapped) {
    if (!adjacent(p.axes, ones, x->rank, false)) return "the result would have another order";
    last = false;
  }
  x->format.layout = last ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  y->format.layout = last && keeps ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* reduce_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_problem, sizeof(reduce_params), out);
}

static carnot_status* reduce_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(reduce_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(reduce_params));
  const reduce_params* p = step->params;
  CARNOT_CHECK(p->kind >= 0 && p->kind < CARNOT_KERNEL_REDUCTION_COUNT && p->axes, INVALID_MODEL,
               "reduction %d over axes %x", p->kind, p->axes);
  return NULL;
}

typedef struct reduce_state {
  int64_t outer, n, inner, per_part, inner_parts, inner_per_part;
} reduce_state;

static carnot_status* reduce_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  reduce_state* s = memory;
  const reduce_params* p = step->params;
  const carnot_operand* x = &inputs[0];
  *out_workspace_bytes = 0;
  const carnot_dtype dtype = x->format.dtype, to = outputs[0].format.dtype;
  bool types = is_native(step->tactic) ? has_loop(p->kind, dtype) && to == dtype
                                       : carnot_cpu_is_f32_value(step, x) && to == CARNOT_DTYPE_F32;
  CARNOT_CHECK(types && p->axes >> x->rank == 0, INVALID_ARGUMENT,
               "operands are %s and %s, or an axis is out of range", carnot_dtype_name(dtype),
               carnot_dtype_name(to));
  int64_t strides[2][CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, x->rank, x->dims, strides[0]);
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, x->rank, x->dims, strides[1]);
  bool fits[2] = {true, true};
  for (int l = 0; l < 2; l++)
    for (int d = 0; d < x->rank; d++)
      fits[l] = fits[l] && (x->dims[d] == 1 || x->strides[d] == strides[l][d]);
  bool last = !fits[0] && x->rank > 2;
  uint32_t ones = 0;
  for (int d = 0; d < x->rank && d < CARNOT_MAX_RANK; d++) ones |= (uint32_t)(x->dims[d] == 1) << d;
  CARNOT_CHECK(fits[last] && adjacent(p->axes, ones, x->rank, last), INVALID_ARGUMENT,
               "the input is not dense, or the reduced axes are not adjacent");
  *s = (reduce_state){.outer = 1, .n = 1, .inner = 1};
  bool seen = false;
  for (int k = 0; k < x->rank; k++) {
    int d = !last || k == 0 ? k : k == x->rank - 1 ? 1 : k + 1;
    if (x->dims[d] == 1) continue;
    bool reduced = p->axes >> d & 1;
    seen |= reduced;
    *(reduced ? &s->n : seen ? &s->inner : &s->outer) *= x->dims[d];
  }
  CARNOT_CHECK(carnot_dims_count(outputs[0].dims, outputs[0].rank) == s->outer * s->inner,
               INVALID_ARGUMENT, "the result has another size");
  s->per_part = carnot_rows_per_part(s->outer, s->n * s->inner);
  // One image reduced over its pixels: the work is split by channels instead.
  const int64_t unit = s->inner < 512 ? 16 : 64;
  s->inner_per_part =
      !is_native(step->tactic) && s->outer < 8 && s->inner >= 2 * unit && s->n * s->inner > 1 << 15
          ? carnot_ceildiv(s->inner, 8 * unit) * unit
          : s->inner;
  s->inner_parts = carnot_ceildiv(s->inner, s->inner_per_part);
  return NULL;
}

typedef struct reduce_run {
  const carnot_cpu_kernels* kernels;
  const reduce_state* state;
  carnot_reduce_f32 reduce;
} reduce_run;

static void reduce_part(void* argument, int64_t part) {
  const reduce_run* run = argument;
  const reduce_state* s = run->state;
  int64_t o = part / s->inner_parts * s->per_part, j = part % s->inner_parts * s->inner_per_part;
  run->kernels->reduce_f32(&run->reduce, o, carnot_min_i64(o + s->per_part, s->outer), j,
                           carnot_min_i64(j + s->inner_per_part, s->inner));
}

static carnot_status* reduce_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace;
  reduce_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa), .state = state};
  const reduce_state* s = run.state;
  run.reduce = (carnot_reduce_f32){
      .reduction = (carnot_kernel_reduction)((const reduce_params*)step->params)->kind,
      .n = s->n,
      .inner = s->inner,
      .src_is_bf16 = inputs[0].format.dtype == CARNOT_DTYPE_BF16,
      .src = inputs[0].data,
      .src_outer = s->n * s->inner,
      .src_axis = s->inner,
      .dst = outputs[0].data,
      .dst_outer = s->inner};
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer, s->per_part) * s->inner_parts,
                           reduce_part, &run);
  return NULL;
}

typedef struct native_run {
  carnot_reduce_native_fn* kernel;
  const reduce_state* state;
  carnot_reduce_native reduce;
} native_run;

static void native_part(void* argument, int64_t part) {
  const native_run* run = argument;
  const reduce_state* s = run->state;
  int64_t o = part * s->per_part;
  run->kernel(&run->reduce, o, carnot_min_i64(o + s->per_part, s->outer));
}

static carnot_status* native_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace;
  const reduce_state* s = state;
  native_run run = {.kernel = carnot_cpu_kernels_of(step->tactic->isa)->reduce_native, .state = s};
  run.reduce = (carnot_reduce_native){
      .reduction = (carnot_kernel_reduction)((const reduce_params*)step->params)->kind,
      .type = carnot_cpu_element_type(inputs[0].format.dtype),
      .n = s->n,
      .inner = s->inner,
      .src = inputs[0].data,
      .dst = outputs[0].data};
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer, s->per_part), native_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(reduce_f32, .anchor = CARNOT_OP_REDUCE, .takes_bf16 = true,
                   .reject = reduce_reject, .prepare = reduce_prepare, .validate = reduce_validate,
                   .configure = reduce_configure, .run = reduce_run_all);
CARNOT_CPU_TACTICS(reduce_native, .anchor = CARNOT_OP_REDUCE, .config = &kNative,
                   .reject = reduce_reject, .prepare = reduce_prepare, .validate = reduce_validate,
                   .configure = reduce_configure, .run = native_run_all);
