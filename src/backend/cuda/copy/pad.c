// Pad in all its modes, and crops around the middle.
#include "backend/cuda/common/generic.h"
#include "backend/cuda/copy/strided_copy.h"

typedef struct pad_state {
  CUfunction function;
  carnot_cuda_pad_params params;
} pad_state;

static int pad_mode(const carnot_plan_node* node) {
  static const char* const kModes[] = {"constant", "edge", "reflect", "wrap"};
  for (int i = 0; i < 4; i++)
    if (carnot_attr_is(carnot_op_get(node->op), &node->attrs, "mode", kModes[i])) return i;
  return -1;
}

static const char* pad_reject(carnot_problem* problem, char* reason, size_t size) {
  bool crops = carnot_cuda_is_single(problem, CARNOT_OP_CENTER_CROP_PAD);
  if (!crops && !carnot_cuda_is_single(problem, CARNOT_OP_PAD)) return "";
  if (!crops && pad_mode(&problem->region->nodes[0]) < 0) return "this mode has no kernel";
  carnot_cuda_want_row_major(problem);
  carnot_cuda_keep_on_host(problem, 1);
  if (!crops && problem->input_count > 2 && problem->inputs[2].kind == CARNOT_VALUE_TENSOR)
    problem->inputs[2].format.memory = CARNOT_MEMORY_DEVICE;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

// Elements of a last axis that is not padded are copied two at a time, and so on up to 8 bytes.
static int widen(const carnot_operand* x, carnot_cuda_pad_params* p) {
  const int last = p->rank - 1;
  int bytes = carnot_cuda_bytes(x);
  if (last < 0 || p->src[last] != 1 || p->begin[last] || p->dims[last] != p->size[last])
    return bytes;
  while (bytes < 8 && p->dims[last] % 2 == 0) {
    for (int d = 0; d < last; d++)
      if (p->src[d] % 2) return bytes;
    for (int d = 0; d < last; d++) p->src[d] /= 2;
    p->dims[last] /= 2, p->size[last] /= 2, p->count /= 2;
    bytes *= 2;
  }
  return bytes;
}

static carnot_status* pad_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, y));
  CARNOT_TRY(carnot_cuda_on_device(carnot_cuda_optional(step, inputs, 2), 1));
  int64_t pads[2 * CARNOT_MAX_RANK], axes[CARNOT_MAX_RANK];
  int count = 0, axis_count = 0;
  bool crops = step->region->nodes[0].op == CARNOT_OP_CENTER_CROP_PAD;
  if (!crops) CARNOT_TRY(carnot_cuda_ints(&inputs[1], pads, 2 * CARNOT_MAX_RANK, &count));
  if (!crops)
    CARNOT_TRY(carnot_cuda_ints(carnot_cuda_optional(step, inputs, 3), axes, CARNOT_MAX_RANK,
                                &axis_count));
  CARNOT_CHECK(x->rank <= CARNOT_CUDA_RANK && y->rank == x->rank, UNSUPPORTED, "rank %d", x->rank);
  pad_state* s = state;
  *s = (pad_state){
      .params = {.rank = x->rank, .mode = crops ? 0 : pad_mode(&step->region->nodes[0])}};
  s->params.count = carnot_dims_count(y->dims, y->rank);
  for (int d = 0; d < x->rank; d++) {
    s->params.dims[d] = y->dims[d];
    s->params.size[d] = x->dims[d];
    s->params.src[d] = x->strides[d];
    if (crops) s->params.begin[d] = (y->dims[d] - x->dims[d]) / 2;  // around the middle
    CARNOT_CHECK(s->params.mode == 0 || x->dims[d] > 0, INVALID_ARGUMENT, "axis %d is empty", d);
  }
  for (int i = 0; i < count / 2; i++) {
    int64_t axis = axis_count > i ? axes[i] : i;
    if (axis < 0) axis += x->rank;
    CARNOT_CHECK(axis >= 0 && axis < x->rank, INVALID_MODEL, "axis %lld", (long long)axis);
    s->params.begin[axis] = pads[i];
  }
  static const carnot_cuda_kernel_id kPad[] = {[1] = CARNOT_CUDA_KERNEL_pad_1,
                                               [2] = CARNOT_CUDA_KERNEL_pad_2,
                                               [4] = CARNOT_CUDA_KERNEL_pad_4,
                                               [8] = CARNOT_CUDA_KERNEL_pad_8};
  s->params.value_bytes = carnot_cuda_bytes(x);
  return carnot_cuda_kernel(carnot_cuda_of_step(step), kPad[widen(x, &s->params)], &s->function);
}

static carnot_status* pad_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  pad_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  s->params.value = carnot_cuda_optional(step, inputs, 2)->data;
  return carnot_cuda_launch_threads(step, s->function, s->params.count, &s->params);
}

const carnot_tactic carnot_cuda_pad = {.name = "cuda_pad",
                                       .anchor = CARNOT_OP_COUNT,
                                       .numerics = CARNOT_NUMERICS_EXACT,
                                       .device = true,
                                       .reject = pad_reject,
                                       .configure = pad_shape,
                                       .run = pad_run};
