// Pad by constant widths, in all its modes: the interior is copied, then the borders axis by axis,
// each from the elements that are written already.
#include "backend/cpu/common/cpu.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP, PAD_MODES } pad_mode;

typedef struct pad_params {
  int32_t mode;
  int64_t begin[CARNOT_MAX_RANK], end[CARNOT_MAX_RANK];
} pad_params;

// ---- build ----

static pad_mode mode_of(const carnot_plan_node* node) {
  static const char* const kModes[] = {"constant", "edge", "reflect", "wrap"};
  int mode = 0;
  while (mode < PAD_MODES &&
         !carnot_attr_is(carnot_op_get(node->op), &node->attrs, "mode", kModes[mode]))
    mode++;
  return (pad_mode)mode;
}

// The integers of a constant operand; -1 where it is none. An absent one has none.
static int read_list(const carnot_problem* problem, uint32_t input, int64_t* out, int capacity) {
  if (input >= problem->input_count || problem->inputs[input].kind != CARNOT_VALUE_TENSOR) return 0;
  const carnot_operand_desc* t = &problem->inputs[input];
  if (!carnot_is_known(t)) return -1;
  int64_t count = carnot_tensor_count(t->tensor);
  if (count > capacity) return -1;
  for (int64_t i = 0; i < count; i++)
    out[i] = carnot_load_i64(t->tensor->dtype, t->tensor->data, (size_t)i);
  return (int)count;
}

// The least size that the other numbers of a border can come from.
static int64_t least_size(pad_mode mode, int64_t begin, int64_t end) {
  int64_t widest = carnot_max_i64(begin, end);
  if (!widest || mode == PAD_CONSTANT) return 0;
  return mode == PAD_EDGE ? 1 : mode == PAD_REFLECT ? widest + 1 : widest;
}

static const char* read_pads(const carnot_problem* problem, void* params, char* reason,
                             size_t size) {
  pad_params* out = params;
  if (problem->region->node_count != 1 || problem->region->nodes[0].op != CARNOT_OP_PAD) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  const char* why = carnot_cpu_moves_bytes(problem, reason, size);
  if (why) return why;
  int64_t pads[2 * CARNOT_MAX_RANK] = {0}, axes[CARNOT_MAX_RANK] = {0};
  pad_mode mode = mode_of(&problem->region->nodes[0]);
  int count = read_list(problem, 1, pads, 2 * CARNOT_MAX_RANK),
      axis_count = read_list(problem, 3, axes, CARNOT_MAX_RANK);
  if (mode == PAD_MODES) return "this mode has no kernel";
  if (mode == PAD_CONSTANT && problem->input_count > 2 &&
      problem->inputs[2].kind == CARNOT_VALUE_TENSOR &&
      problem->inputs[2].format.dtype != x->format.dtype)
    return "the fill value has another type";
  if (count < 0 || count % 2 || axis_count < 0) return "widths or axes are not constant";
  *out = (pad_params){.mode = (int32_t)mode};
  for (int i = 0; i < count / 2; i++) {
    int64_t axis = axis_count > i ? axes[i] : i;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) return "an axis is out of range";
    out->begin[axis] = pads[i], out->end[axis] = pads[count / 2 + i];
    if (pads[i] < 0 || pads[count / 2 + i] < 0) return "a width is negative";
    if (x->min[axis] < least_size(mode, pads[i], pads[count / 2 + i]))
      return carnot_because(reason, size, "axis %lld may be shorter than its border",
                            (long long)axis);
  }
  return NULL;
}

static const char* pad_reject(carnot_problem* problem, char* reason, size_t size) {
  pad_params p;
  const char* why = read_pads(problem, &p, reason, size);
  if (!why) problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return why;
}

static carnot_status* pad_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_pads, sizeof(pad_params), out);
}

static carnot_status* pad_validate(const carnot_step_view* step) {
  const pad_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(*p) && p->mode >= 0 && p->mode < PAD_MODES,
               INVALID_MODEL, "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(*p));
  for (int d = 0; d < CARNOT_MAX_RANK; d++)
    CARNOT_CHECK(
        p->begin[d] >= 0 && p->begin[d] < INT32_MAX && p->end[d] >= 0 && p->end[d] < INT32_MAX,
        INVALID_MODEL, "borders of %lld and %lld", (long long)p->begin[d], (long long)p->end[d]);
  return NULL;
}

// ---- shape and run ----

static carnot_status* pad_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  const pad_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(x->format.dtype == y->format.dtype && x->rank == y->rank, INVALID_ARGUMENT,
               "operands of %s and %s, ranks %d and %d", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype), x->rank, y->rank);
  for (int d = 0; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] >= least_size((pad_mode)p->mode, p->begin[d], p->end[d]) &&
                     y->dims[d] == p->begin[d] + x->dims[d] + p->end[d],
                 INVALID_ARGUMENT, "dimension %d has %lld, of %lld with borders of %lld and %lld",
                 d, (long long)y->dims[d], (long long)x->dims[d], (long long)p->begin[d],
                 (long long)p->end[d]);
  return NULL;
}

typedef struct padding {
  const carnot_step_view* step;
  carnot_executor* executor;
  const pad_params* p;
  const carnot_operand *x, *y;
  const void* value;
  int bytes;
} padding;

// Fills |count| elements of axis |d| from |to| on: axes before |d| with their borders, those after
// it without. The source begins at |from|, |step| elements apart.
static void put_border(const padding* a, int d, int64_t to, int64_t count, int64_t from, int step) {
  const carnot_operand* y = a->y;
  bool constant = a->p->mode == PAD_CONSTANT;
  int64_t dims[CARNOT_MAX_RANK], src[CARNOT_MAX_RANK], inside = 0;
  if (!count) return;
  for (int e = 0; e < y->rank; e++) {
    dims[e] = e < d ? y->dims[e] : e == d ? count : a->x->dims[e];
    src[e] = constant ? 0 : e == d ? step * y->strides[e] : y->strides[e];
    if (e > d) inside += a->p->begin[e] * y->strides[e];
  }
  char* base = (char*)y->data + inside * a->bytes;
  const void* source = constant ? a->value : base + from * y->strides[d] * a->bytes;
  carnot_cpu_copy(a->step, a->executor, y->rank, dims, a->bytes, source, src,
                  base + to * y->strides[d] * a->bytes, y->strides);
}

static carnot_status* pad_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  static const int64_t kZero = 0;
  const pad_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  padding a = {.step = step, .executor = executor, .p = p, .x = x, .y = y, .value = &kZero};
  a.bytes = carnot_dtype_bits(x->format.dtype) / 8;
  if (step->input_count > 2 && inputs[2].data) a.value = inputs[2].data;
  int64_t inside = 0;
  for (int d = 0; d < y->rank; d++) inside += p->begin[d] * y->strides[d];
  carnot_cpu_copy(step, executor, x->rank, x->dims, a.bytes, x->data, x->strides,
                  (char*)y->data + inside * a.bytes, y->strides);
  for (int d = 0; d < y->rank; d++) {
    int64_t begin = p->begin[d], size = x->dims[d], last = begin + size - 1;
    switch ((pad_mode)p->mode) {
      case PAD_REFLECT:
        put_border(&a, d, 0, begin, 2 * begin, -1);
        put_border(&a, d, last + 1, p->end[d], last - 1, -1);
        break;
      case PAD_WRAP:
        put_border(&a, d, 0, begin, size, 1);
        put_border(&a, d, last + 1, p->end[d], begin, 1);
        break;
      default:
        put_border(&a, d, 0, begin, begin, 0);
        put_border(&a, d, last + 1, p->end[d], last, 0);
    }
  }
  return NULL;
}

const carnot_tactic carnot_tactic_pad = {.name = "cpu_pad",
                                         .anchor = CARNOT_OP_PAD,
                                         .isa = CARNOT_ISA_SCALAR,
                                         .numerics = CARNOT_NUMERICS_EXACT,
                                         .takes_bf16 = true,
                                         .reject = pad_reject,
                                         .prepare = pad_prepare,
                                         .validate = pad_validate,
                                         .configure = pad_configure,
                                         .run = pad_run};
