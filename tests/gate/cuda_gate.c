// The gate's device case: the convolution and product rows recorded into one CUDA graph, held
// against the CPU's rows.
//
// Without a device it says "skipped: no device" and what it could do instead: compile the kernels
// for every listed architecture.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/rows.h"

enum { kSkipped = 77 };

static float noise(size_t i) {
  return (float)((int)(i * 2654435761u >> 18 & 4095) - 2048) * 0x1p-11f;
}

static carnot_operand_type tensor_type(int rank, const int64_t* dims, carnot_layout layout,
                                       const carnot_tensor* constant) {
  carnot_operand_type t = {.kind = CARNOT_VALUE_TENSOR,
                           .dtype = CARNOT_DTYPE_F32,
                           .rank = rank,
                           .layout = layout,
                           .is_constant = constant != NULL,
                           .tensor = constant};
  for (int d = 0; d < rank; d++) t.dims[d] = t.min[d] = t.max[d] = dims[d];
  return t;
}

static carnot_tensor random_tensor(int rank, const int64_t* dims) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = rank};
  memcpy(t.dims, dims, (size_t)rank * sizeof(*dims));
  size_t count = (size_t)carnot_tensor_count(&t);
  float* data = aligned_alloc(64, carnot_align_up(count * 4, 64));
  for (size_t i = 0; i < count; i++) data[i] = noise(i + (size_t)dims[0] * 977);
  t.data = data;
  return t;
}

// anchor, then relu: a region of two nodes on inputs x, w (and b).
typedef struct region_case {
  carnot_region region;
  carnot_plan_node nodes[2];
  uint32_t anchor_inputs[3], anchor_output, relu_input, relu_output;
  carnot_attr attrs[4], relu_attr;
  carnot_operand_type inputs[3], outputs[1], inner[2];
  carnot_problem problem;
} region_case;

static void make_case(region_case* c, carnot_op op, uint32_t inputs, carnot_attr* attrs,
                      size_t attr_count) {
  for (uint32_t i = 0; i < inputs; i++) c->anchor_inputs[i] = i;
  c->anchor_output = c->relu_input = inputs;
  c->relu_output = inputs + 1;
  c->nodes[0] = (carnot_plan_node){.op = op,
                                   .name = "anchor",
                                   .attrs = {attrs, attr_count},
                                   .input_count = inputs,
                                   .output_count = 1,
                                   .inputs = c->anchor_inputs,
                                   .outputs = &c->anchor_output};
  c->relu_attr = (carnot_attr){.name = "fn", .type = CARNOT_ATTR_INT, .i = CARNOT_FN_RELU};
  c->nodes[1] = (carnot_plan_node){.op = CARNOT_OP_UNARY,
                                   .name = "relu",
                                   .attrs = {&c->relu_attr, 1},
                                   .input_count = 1,
                                   .output_count = 1,
                                   .inputs = &c->relu_input,
                                   .outputs = &c->relu_output};
  c->region = (carnot_region){.node_count = 2,
                              .value_count = inputs + 2,
                              .nodes = c->nodes,
                              .output_count = 1,
                              .outputs = &c->relu_output};
  c->inner[0] = c->inner[1] = c->outputs[0];
  c->problem = (carnot_problem){.region = &c->region,
                                .input_count = inputs,
                                .output_count = 1,
                                .inputs = c->inputs,
                                .outputs = c->outputs,
                                .inner = c->inner,
                                .isa = carnot_isa_of_machine()};
}

typedef struct prepared_step {
  carnot_step_view view;
  carnot_operand operands[4];
  _Alignas(64) char state[CARNOT_STATE_BYTES];
} prepared_step;

static carnot_status* prepare_step(const carnot_tactic_row* row, region_case* c,
                                   carnot_arena* arena, prepared_step* out) {
  char reason[256];
  const char* why = row->reject(&c->problem, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s rejects the case: %s", row->name, why);
  carnot_prepared prepared = {.arena = arena};
  CARNOT_TRY(row->prepare(&c->problem, &prepared));
  out->view = (carnot_step_view){.region = &c->region,
                                 .input_count = c->problem.input_count,
                                 .output_count = 1,
                                 .params = prepared.params,
                                 .param_bytes = prepared.param_bytes,
                                 .constant_count = prepared.constant_count,
                                 .isa = row->isa,
                                 .machine_isa = c->problem.isa};
  for (uint32_t i = 0; i < prepared.constant_count; i++) {
    out->view.constants[i] = prepared.constants[i].data;
    out->view.constant_bytes[i] = prepared.constants[i].bytes;
  }
  for (uint32_t i = 0; i <= c->problem.input_count; i++) {
    const carnot_operand_type* t = i < c->problem.input_count ? &c->inputs[i] : &c->outputs[0];
    out->operands[i] = (carnot_operand){.dtype = t->dtype, .rank = t->rank};
    memcpy(out->operands[i].dims, t->dims, sizeof(t->dims));
    carnot_layout_strides(t->is_constant ? CARNOT_LAYOUT_ROW_MAJOR : t->layout, t->rank, t->dims,
                          out->operands[i].strides);
  }
  return NULL;
}

static carnot_status* upload(carnot_cuda* cuda, const void* data, size_t bytes, const void** out) {
  CUdeviceptr pointer;
  CARNOT_CUDA_TRY(cuda, cuMemAlloc_v2(&pointer, bytes));
  if (data) CARNOT_CUDA_TRY(cuda, cuMemcpyHtoD_v2(pointer, data, bytes));
  *out = (const void*)(uintptr_t)pointer;
  return NULL;
}

static carnot_status* upload_constants(carnot_cuda* cuda, prepared_step* step) {
  for (uint32_t i = 0; i < step->view.constant_count; i++)
    CARNOT_TRY(upload(cuda, step->view.constants[i], step->view.constant_bytes[i],
                      &step->view.constants[i]));
  return NULL;
}

enum { kBatch = 2, kChannels = 5, kHeight = 9, kWidth = 11, kFilters = 24, kColumns = 37 };
enum { kPixels = kBatch * kHeight * kWidth };

// conv 3x3 + bias + relu over [2,5,9,11], then each pixel's 24 channels times [24,37] + relu: the
// conv's channels-last result is the product's left operand as it lies.
static carnot_status* run_gate(carnot_cuda* cuda) {
  carnot_arena arena = {0};
  const int64_t x_dims[] = {kBatch, kChannels, kHeight, kWidth},
                w_dims[] = {kFilters, kChannels, 3, 3}, b_dims[] = {kFilters};
  const int64_t y_dims[] = {kBatch, kFilters, kHeight, kWidth}, a_dims[] = {kPixels, kFilters},
                m_dims[] = {kFilters, kColumns}, c_dims[] = {kPixels, kColumns};
  carnot_tensor x = random_tensor(4, x_dims), w = random_tensor(4, w_dims),
                b = random_tensor(1, b_dims), m = random_tensor(2, m_dims);
  const int64_t pads[] = {1, 1, 1, 1};
  carnot_attr pad = {.name = "pads", .type = CARNOT_ATTR_INTS, .count = 4, .ints = pads};
  region_case *conv = calloc(1, sizeof(*conv)), *gemm = calloc(1, sizeof(*gemm));
  conv->inputs[0] = tensor_type(4, x_dims, CARNOT_LAYOUT_CHANNELS_LAST, NULL);
  conv->inputs[1] = tensor_type(4, w_dims, CARNOT_LAYOUT_ROW_MAJOR, &w);
  conv->inputs[2] = tensor_type(1, b_dims, CARNOT_LAYOUT_ROW_MAJOR, &b);
  conv->outputs[0] = tensor_type(4, y_dims, CARNOT_LAYOUT_CHANNELS_LAST, NULL);
  make_case(conv, CARNOT_OP_CONV, 3, &pad, 1);
  gemm->inputs[0] = tensor_type(2, a_dims, CARNOT_LAYOUT_ROW_MAJOR, NULL);
  gemm->inputs[1] = tensor_type(2, m_dims, CARNOT_LAYOUT_ROW_MAJOR, &m);
  gemm->outputs[0] = tensor_type(2, c_dims, CARNOT_LAYOUT_ROW_MAJOR, NULL);
  make_case(gemm, CARNOT_OP_MATMUL, 2, NULL, 0);

  // The CPU's rows, as the oracle that the conformance suite has checked.
  const carnot_tactic_row* rows[2] = {carnot_tactic_find("cpu_conv_f32_scalar"),
                                      carnot_tactic_find("cpu_gemm_f32_scalar")};
  float* y = aligned_alloc(64, kPixels * kFilters * 4);
  float *wanted = calloc(kPixels * kColumns, 4), *found = calloc(kPixels * kColumns, 4);
  prepared_step *cpu = aligned_alloc(64, 2 * sizeof(prepared_step)),
                *gpu = aligned_alloc(64, 2 * sizeof(prepared_step));
  memset(cpu, 0, 2 * sizeof(*cpu));
  memset(gpu, 0, 2 * sizeof(*gpu));
  region_case* cases[2] = {conv, gemm};
  const carnot_tactic_row* device_rows[2] = {&carnot_cuda_conv_f32, &carnot_cuda_gemm_f32};
  size_t workspace;
  for (int i = 0; i < 2; i++) {
    CARNOT_TRY(prepare_step(rows[i], cases[i], &arena, &cpu[i]));
    cpu[i].operands[0].data = i ? (void*)y : x.data;
    cpu[i].operands[cases[i]->problem.input_count].data = i ? wanted : y;
    const carnot_operand* outputs = &cpu[i].operands[cases[i]->problem.input_count];
    CARNOT_TRY(rows[i]->shape(&cpu[i].view, cpu[i].operands, outputs, cpu[i].state, &workspace));
    CARNOT_TRY(rows[i]->run(&cpu[i].view, cpu[i].state, cpu[i].operands, outputs, NULL, NULL));
  }
  // The device's rows, recorded once and launched three times.
  carnot_cuda_queue queue = {.cuda = cuda};
  CARNOT_CUDA_TRY(cuda, cuStreamCreate(&queue.stream, CU_STREAM_NON_BLOCKING));
  const void *dx, *dy, *dc;
  CARNOT_TRY(upload(cuda, x.data, carnot_tensor_bytes(&x), &dx));
  CARNOT_TRY(upload(cuda, NULL, kPixels * kFilters * 4, &dy));
  CARNOT_TRY(upload(cuda, NULL, kPixels * kColumns * 4, &dc));
  for (int i = 0; i < 2; i++) {
    CARNOT_TRY(prepare_step(device_rows[i], cases[i], &arena, &gpu[i]));
    CARNOT_TRY(upload_constants(cuda, &gpu[i]));
    gpu[i].operands[0].data = (void*)(i ? dy : dx);
    gpu[i].operands[cases[i]->problem.input_count].data = (void*)(i ? dc : dy);
    CARNOT_TRY(device_rows[i]->shape(&gpu[i].view, gpu[i].operands,
                                     &gpu[i].operands[cases[i]->problem.input_count], gpu[i].state,
                                     &workspace));
  }
  CUgraph graph;
  CUgraphExec program;
  CARNOT_CUDA_TRY(cuda, cuStreamBeginCapture_v2(queue.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < 2; i++)
    CARNOT_TRY(device_rows[i]->run(&gpu[i].view, gpu[i].state, gpu[i].operands,
                                   &gpu[i].operands[cases[i]->problem.input_count], NULL,
                                   (carnot_executor*)&queue));
  CARNOT_CUDA_TRY(cuda, cuStreamEndCapture(queue.stream, &graph));
  CARNOT_CUDA_TRY(cuda, cuGraphInstantiateWithFlags(&program, graph, 0));
  for (int run = 0; run < 3; run++) {
    memset(found, 0xff, kPixels * kColumns * 4);  // NaN: every element must be written
    CARNOT_CUDA_TRY(cuda,
                    cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)dc, found, kPixels * kColumns * 4));
    CARNOT_CUDA_TRY(cuda, cuGraphLaunch(program, queue.stream));
    CARNOT_CUDA_TRY(cuda, cuStreamSynchronize(queue.stream));
    CARNOT_CUDA_TRY(cuda,
                    cuMemcpyDtoH_v2(found, (CUdeviceptr)(uintptr_t)dc, kPixels * kColumns * 4));
    double worst = 0, top = 0;
    for (int i = 0; i < kPixels * kColumns; i++) {
      double difference = fabs((double)found[i] - (double)wanted[i]);
      CARNOT_CHECK(difference == difference, INTERNAL, "element %d of run %d is NaN", i, run);
      worst = fmax(worst, difference);
      top = fmax(top, fabs((double)wanted[i]));
    }
    CARNOT_CHECK(worst <= 1e-5 * top, INTERNAL, "run %d differs by %g of %g", run, worst, top);
    printf("run %d of the graph: largest difference %.3g of %.3g\n", run, worst, top);
  }
  return NULL;
}

static carnot_status* compile_all(void) {
  static const char* const kArchs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"};
  carnot_cuda* compiler;
  CARNOT_TRY(carnot_cuda_open_compiler(&compiler));
  for (size_t i = 0; i < sizeof(kArchs) / sizeof(kArchs[0]); i++) {
    char* cubin;
    CARNOT_TRY(carnot_cuda_compile(compiler, carnot_cuda_source, kArchs[i], &cubin));
    printf("kernels compile for %s\n", kArchs[i]);
    free(cubin);
  }
  carnot_cuda_close(compiler);
  return NULL;
}

int main(void) {
  carnot_cuda* cuda;
  carnot_status* status = carnot_cuda_open(0, &cuda);
  if (carnot_status_code(status) == CARNOT_NOT_FOUND) {
    printf("skipped: no device (%s)\n", carnot_status_message(status));
    carnot_status_free(status);
    status = compile_all();
    if (status) printf("kernels were not compiled: %s\n", carnot_status_message(status));
    return carnot_status_code(status) == CARNOT_INTERNAL ? 1 : kSkipped;
  }
  if (!status) {
    printf("%s, sm_%d%d\n", cuda->name, cuda->major, cuda->minor);
    status = run_gate(cuda);
  }
  printf("%s\n", status ? carnot_status_message(status) : "passed");
  return status != NULL;
}
