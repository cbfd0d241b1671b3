// Copies between host and device, and layout changes on the device: the steps that the builder
// inserts.
#include "backend/cuda/copy/strided_copy.h"
#include "backend/cuda/driver/backend.h"

static const char* only_the_builder(carnot_problem* problem, char* reason, size_t size) {
  (void)problem, (void)reason, (void)size;
  return "";
}

static carnot_status* cross_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  (void)step;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(inputs[0].format.memory != outputs[0].format.memory &&
                   inputs[0].format.dtype == outputs[0].format.dtype,
               INVALID_MODEL, "a copy between processor and device stays where it is");
  *(size_t*)state = carnot_dtype_bytes(inputs[0].format.dtype,
                                       (size_t)carnot_dims_count(inputs[0].dims, inputs[0].rank));
  return NULL;
}

static carnot_status* cross_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  carnot_copy_kind kind =
      outputs[0].format.memory == CARNOT_MEMORY_DEVICE ? CARNOT_COPY_UPLOAD : CARNOT_COPY_DOWNLOAD;
  return carnot_cuda_stream_copy(step->stream, outputs[0].data, inputs[0].data, *(size_t*)state,
                                 kind);
}

#define CROSS_TACTIC(variable, text)                                               \
  const carnot_tactic carnot_cuda_##variable = {.name = text,                      \
                                                .anchor = CARNOT_OP_COUNT,         \
                                                .numerics = CARNOT_NUMERICS_EXACT, \
                                                .device = true,                    \
                                                .cross_memory = true,              \
                                                .reject = only_the_builder,        \
                                                .configure = cross_shape,          \
                                                .run = cross_run};
CROSS_TACTIC(upload, CARNOT_UPLOAD_TACTIC)
CROSS_TACTIC(download, CARNOT_DOWNLOAD_TACTIC)

// ---- reformat ----

static carnot_status* reformat_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_check_copy(&inputs[0], &outputs[0]));
  return carnot_cuda_strided_copy_make(step, outputs[0].rank, outputs[0].dims, inputs[0].strides, 0,
                                       outputs[0].strides, 0, carnot_cuda_bytes(&inputs[0]), state);
}

const carnot_tactic carnot_cuda_reformat = {.name = CARNOT_DEVICE_REFORMAT_TACTIC,
                                            .anchor = CARNOT_OP_COUNT,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .device = true,
                                            .strided_outputs = true,
                                            .reject = only_the_builder,
                                            .configure = reformat_shape,
                                            .run = carnot_cuda_strided_copy_tactic_run};
