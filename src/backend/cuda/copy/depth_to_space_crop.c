// DepthToSpace, alone or with the slice of rows and columns behind it as one region, as transposed
// convolutions are written (pass/decompose_conv_transpose.c).
#include "backend/cuda/common/generic.h"
#include "backend/cuda/copy/strided_copy.h"
#include "kernel/cuda/copy/depth_to_space_crop_params.h"

typedef struct crop_state {
  CUfunction function;
  carnot_cuda_depth_to_space_crop_params params;
} crop_state;
_Static_assert(sizeof(crop_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* depth_to_space_crop_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_region* r = problem->region;
  const bool crops = r->node_count == 2;
  if (r->nodes[0].op != CARNOT_OP_DEPTH_TO_SPACE || r->node_count > 2 ||
      (crops && r->nodes[1].op != CARNOT_OP_SLICE))
    return "";
  if ((crops && r->nodes[1].inputs[0] != r->nodes[0].outputs[0]) || r->nodes[0].inputs[0] != 0 ||
      problem->output_count != 1 || problem->inputs[0].rank != 4)
    return "not a slice of what is shuffled";
  if (crops) carnot_cuda_keep_on_host(problem, 1);
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

// Input |i| of the slice, or NULL.
static const carnot_operand* slice_input(const carnot_step_view* step, const carnot_operand* inputs,
                                         uint32_t i) {
  const carnot_plan_node* slice = &step->region->nodes[1];
  uint32_t at = i < slice->input_count ? slice->inputs[i] : CARNOT_PLAN_NONE;
  return at < step->input_count ? &inputs[at] : NULL;
}

// Elements left out at the begin of rows and columns.
static carnot_status* read_crop(const carnot_step_view* step, const carnot_operand* inputs,
                                int* out) {
  int64_t starts[4], axes[4], steps[4];
  int count = 0, axis_count = 0, step_count = 0;
  const carnot_operand* lists[] = {slice_input(step, inputs, 1), slice_input(step, inputs, 3),
                                   slice_input(step, inputs, 4)};
  CARNOT_CHECK(lists[0] && lists[1], INVALID_MODEL, "a slice without starts or axes");
  CARNOT_TRY(carnot_cuda_ints(lists[0], starts, 4, &count));
  CARNOT_TRY(carnot_cuda_ints(lists[1], axes, 4, &axis_count));
  if (lists[2]) CARNOT_TRY(carnot_cuda_ints(lists[2], steps, 4, &step_count));
  for (int i = 0; i < count; i++) {
    CARNOT_CHECK(i < axis_count && (axes[i] == 2 || axes[i] == 3) && starts[i] >= 0 &&
                     starts[i] <= INT32_MAX && (i >= step_count || steps[i] == 1),
                 INVALID_MODEL, "a slice from %lld of axis %lld; rows and columns are required",
                 (long long)starts[i], (long long)(i < axis_count ? axes[i] : -1));
    out[axes[i] - 2] = (int)starts[i];
  }
  return NULL;
}

static carnot_status* set_geometry(const carnot_step_view* step, const carnot_operand* x,
                                   const carnot_operand* y,
                                   carnot_cuda_depth_to_space_crop_params* p) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  const int64_t block = carnot_attr_int(row, &node->attrs, "blocksize");
  const bool crd = carnot_attr_is(row, &node->attrs, "mode", "CRD");
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && block > 0 && block <= INT16_MAX &&
                   x->dims[0] == y->dims[0] && x->dims[1] == y->dims[1] * block * block &&
                   y->dims[2] + p->crop[0] <= x->dims[2] * block &&
                   y->dims[3] + p->crop[1] <= x->dims[3] * block &&
                   carnot_cuda_count(y) <= INT32_MAX,
               INVALID_ARGUMENT, "blocks of %lld do not fit", (long long)block);
  const int64_t depth = y->dims[1], c = x->strides[1];
  p->block = (int)block;
  p->rows = (int)y->dims[2], p->columns = (int)y->dims[3], p->channels = (int)depth;
  p->deep_channel = crd ? block * block * c : c;
  p->deep_phase[0] = crd ? block * c : block * depth * c, p->deep_phase[1] = crd ? c : depth * c;
  p->deep_image = x->strides[0], p->deep_row = x->strides[2], p->deep_column = x->strides[3];
  p->image = y->strides[0], p->row = y->strides[2], p->column = y->strides[3];
  p->channel = y->strides[1];
  p->channels_last = p->channel == 1;
  return NULL;
}

// Channels beside one another are moved by up to 16 bytes.
static void widen(carnot_cuda_depth_to_space_crop_params* p, int bytes) {
  long long* strides[] = {&p->deep_image,    &p->deep_row, &p->deep_column, &p->deep_phase[0],
                          &p->deep_phase[1], &p->image,    &p->row,         &p->column};
  enum { kStrides = sizeof(strides) / sizeof(strides[0]) };
  while (p->channel == 1 && p->deep_channel == 1 && bytes < 16 && p->channels % 2 == 0) {
    bool even = true;
    for (int i = 0; i < kStrides; i++) even = even && *strides[i] % 2 == 0;
    if (!even) break;
    for (int i = 0; i < kStrides; i++) *strides[i] /= 2;
    p->channels /= 2;
    bytes *= 2;
  }
  p->io.bytes = bytes;
}

static carnot_status* depth_to_space_crop_shape(const carnot_step_view* step,
                                                const carnot_operand* inputs,
                                                const carnot_operand* outputs, void* state,
                                                size_t* out_workspace_bytes) {
  crop_state* s = state;
  *out_workspace_bytes = 0;
  *s = (crop_state){.params.io.together = 1};
  CARNOT_TRY(carnot_cuda_check_copy(&inputs[0], &outputs[0]));
  if (step->region->node_count == 2) CARNOT_TRY(read_crop(step, inputs, s->params.crop));
  CARNOT_TRY(set_geometry(step, &inputs[0], &outputs[0], &s->params));
  widen(&s->params, carnot_cuda_bytes(&inputs[0]));
  const carnot_cuda_depth_to_space_crop_params* p = &s->params;
  s->params.io.count = outputs[0].dims[0] * p->rows * p->columns * p->channels;
  return carnot_cuda_kernel(carnot_cuda_of_step(step),
                            CARNOT_CUDA_KERNEL_generic_depth_to_space_crop, &s->function);
}

static carnot_status* depth_to_space_crop_run(const carnot_step_view* step, void* state,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs, void* workspace,
                                              carnot_executor* executor) {
  (void)workspace, (void)executor;
  crop_state* s = state;
  s->params.io.in[0] = inputs[0].data;
  s->params.io.out[0] = outputs[0].data;
  const int64_t grid[3] = {carnot_ceildiv(s->params.io.count, CARNOT_CUDA_THREADS), 1, 1};
  return carnot_cuda_launch(step, s->function, grid, CARNOT_CUDA_THREADS, &s->params);
}

const carnot_tactic carnot_cuda_depth_to_space_crop = {.name = "cuda_depth_to_space_crop",
                                                       .anchor = CARNOT_OP_DEPTH_TO_SPACE,
                                                       .numerics = CARNOT_NUMERICS_EXACT,
                                                       .device = true,
                                                       .strided_outputs = true,
                                                       .reject = depth_to_space_crop_reject,
                                                       .configure = depth_to_space_crop_shape,
                                                       .run = depth_to_space_crop_run};
