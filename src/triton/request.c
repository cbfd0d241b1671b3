#include "triton/request.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "triton/convert.h"
#include "triton/log.h"

uint64_t carnot_triton_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// ---- inputs ----

// The input of |model| called |name|; input_count where there is none.
static uint32_t find_input(const carnot_triton_model* model, const char* name) {
  uint32_t i = 0;
  while (i < model->input_count && strcmp(model->tensors[i].name, name) != 0) i++;
  return i;
}

static carnot_status* read_dims(const char* name, const int64_t* shape, uint32_t rank,
                                carnot_dims* out_dims) {
  CARNOT_CHECK(rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "input %s has %u dimensions, at most %d are taken", name, rank, CARNOT_MAX_RANK);
  out_dims->rank = (int32_t)rank;
  for (uint32_t d = 0; d < rank; d++) {
    CARNOT_CHECK(shape[d] >= 0, INVALID_ARGUMENT, "input %s: dimension %u is %" PRId64, name, d,
                 shape[d]);
    out_dims->d[d] = shape[d];
  }
  return NULL;
}

// The type of Carnot that Triton calls |type|; INVALID where there is none.
static carnot_dtype dtype_of(TRITONSERVER_DataType type) {
  for (int i = CARNOT_DTYPE_INVALID + 1; i < CARNOT_DTYPE_COUNT; i++)
    if (carnot_triton_type((carnot_dtype)i) == type && type != TRITONSERVER_TYPE_INVALID)
      return (carnot_dtype)i;
  return CARNOT_DTYPE_INVALID;
}

// The number of bytes must be what type and shape say. Text says its lengths itself.
static carnot_status* check_bytes(const char* name, const carnot_triton_input* input,
                                  const carnot_dims* dims) {
  if (input->dtype == CARNOT_DTYPE_STRING) return NULL;
  uint64_t bytes = (uint64_t)carnot_dtype_bits(input->dtype) / 8;
  bool is_too_large = false;
  for (int d = 0; d < dims->rank; d++)
    is_too_large |= __builtin_mul_overflow(bytes, (uint64_t)dims->d[d], &bytes);
  char text[256];
  carnot_triton_dims_text(dims, text, sizeof text);
  CARNOT_CHECK(!is_too_large, INVALID_ARGUMENT, "input %s: shape %s is too large", name, text);
  CARNOT_CHECK(bytes == input->bytes, INVALID_ARGUMENT,
               "input %s has %" PRIu64 " bytes, must have %" PRIu64 ": %s of %s", name,
               input->bytes, bytes, carnot_dtype_name(input->dtype), text);
  return NULL;
}

static carnot_status* read_input(const carnot_triton_model* model, TRITONBACKEND_Input* handle,
                                 carnot_triton_request* request) {
  const char* name;
  TRITONSERVER_DataType type;
  const int64_t* shape;
  uint32_t rank, buffer_count;
  uint64_t bytes;
  CARNOT_TRY(carnot_triton_from_error(
      TRITONBACKEND_InputProperties(handle, &name, &type, &shape, &rank, &bytes, &buffer_count)));
  uint32_t i = find_input(model, name);
  CARNOT_CHECK(i < model->input_count, INVALID_ARGUMENT, "the model has no input %s", name);
  carnot_triton_input* input = &request->inputs[i];
  CARNOT_CHECK(!input->handle, INVALID_ARGUMENT, "input %s is given twice", name);
  const carnot_tensor_info* tensor = &model->tensors[i];
  *input = (carnot_triton_input){
      .handle = handle, .dtype = dtype_of(type), .bytes = bytes, .buffer_count = buffer_count};
  TRITONSERVER_DataType needed = carnot_triton_type(tensor->dtype);
  CARNOT_CHECK(tensor->kind != CARNOT_DATA_TENSOR || type == needed, INVALID_ARGUMENT,
               "input %s is %s, must be %s", name, carnot_triton_type_name(type),
               carnot_triton_type_name(needed));
  CARNOT_CHECK(input->dtype != CARNOT_DTYPE_INVALID, INVALID_ARGUMENT, "input %s has no type",
               name);
  CARNOT_TRY(read_dims(name, shape, rank, &request->dims[i]));
  return check_bytes(name, input, &request->dims[i]);
}

// ---- shapes ----

// The error for input |i|, which no profile takes with these |dims|.
static carnot_status* refuse_shape(const carnot_triton_model* model, uint32_t i,
                                   const carnot_dims* dims) {
  char given[256], least[256], most[256];
  carnot_triton_dims_text(dims, given, sizeof given);
  carnot_triton_dims_text(&model->ranges[i].min, least, sizeof least);
  carnot_triton_dims_text(&model->ranges[i].max, most, sizeof most);
  bool is_fixed = strcmp(least, most) == 0;
  return CARNOT_ERROR(INVALID_ARGUMENT, "input %s has shape %s, must be %s%s%s%s",
                      model->tensors[i].name, given, least, is_fixed ? "" : " to ",
                      is_fixed ? "" : most,
                      model->profile_count > 1 ? ", or as another profile has it" : "");
}

static carnot_status* check_shapes(const carnot_triton_model* model,
                                   const carnot_triton_request* request) {
  if (carnot_triton_model_find_profile(model, request->dims) < model->profile_count) return NULL;
  for (uint32_t i = 0; i < model->input_count; i++) {
    bool is_taken = false;
    for (uint32_t p = 0; p < model->profile_count; p++)
      is_taken |=
          carnot_triton_range_takes(&model->ranges[p * model->input_count + i], &request->dims[i]);
    if (!is_taken) return refuse_shape(model, i, &request->dims[i]);
  }
  return CARNOT_ERROR(INVALID_ARGUMENT, "no profile takes these shapes of the inputs together");
}

static carnot_status* check_inputs(const carnot_triton_model* model,
                                   carnot_triton_request* request) {
  for (uint32_t i = 0; i < model->input_count; i++) {
    const carnot_dims* dims = &request->dims[i];
    const char* name = model->tensors[i].name;
    CARNOT_CHECK(request->inputs[i].handle || model->tensors[i].kind == CARNOT_DATA_OPTIONAL,
                 INVALID_ARGUMENT, "input %s is missing", name);
    if (model->tensors[i].kind == CARNOT_DATA_OPTIONAL) continue;
    CARNOT_CHECK(dims->rank == model->tensors[i].dims.rank || model->tensors[i].dims.rank < 0,
                 INVALID_ARGUMENT, "input %s has %d dimensions, must have %d", name, dims->rank,
                 model->tensors[i].dims.rank);
    if (model->max_batch == 0) continue;
    if (i == 0) request->rows = dims->d[0];
    CARNOT_CHECK(dims->d[0] == request->rows, INVALID_ARGUMENT,
                 "input %s has a batch of %" PRId64 ", input %s one of %" PRId64, name, dims->d[0],
                 model->tensors[0].name, request->rows);
  }
  return check_shapes(model, request);
}

// ---- outputs ----

static carnot_status* read_wants(const carnot_triton_model* model, carnot_triton_request* request) {
  uint32_t count;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_RequestOutputCount(request->handle, &count)));
  for (uint32_t i = 0; i < model->output_count; i++) request->wants[i] = count == 0;
  for (uint32_t k = 0; k < count; k++) {
    const char* name;
    CARNOT_TRY(
        carnot_triton_from_error(TRITONBACKEND_RequestOutputName(request->handle, k, &name)));
    uint32_t i = 0;
    while (i < model->output_count &&
           strcmp(model->tensors[model->input_count + i].name, name) != 0)
      i++;
    CARNOT_CHECK(i < model->output_count, INVALID_ARGUMENT, "the model has no output %s", name);
    request->wants[i] = true;
  }
  return NULL;
}

// ---- a request ----

carnot_status* carnot_triton_request_open(const carnot_triton_model* model,
                                          TRITONBACKEND_Request* handle,
                                          carnot_triton_request* request) {
  request->handle = handle;
  request->rows = 0;
  for (uint32_t i = 0; i < model->input_count; i++) request->inputs[i] = (carnot_triton_input){0};
  for (uint32_t i = 0; i < model->input_count; i++) request->dims[i].rank = -1;
  CARNOT_CHECK(!carnot_triton_request_is_cancelled(request), CANCELLED, "the request is cancelled");
  uint32_t count;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_RequestInputCount(handle, &count)));
  for (uint32_t k = 0; k < count; k++) {
    TRITONBACKEND_Input* input;
    CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_RequestInputByIndex(handle, k, &input)));
    CARNOT_TRY(read_input(model, input, request));
  }
  CARNOT_TRY(check_inputs(model, request));
  return read_wants(model, request);
}

bool carnot_triton_request_fits(const carnot_triton_model* model, const carnot_triton_request* a,
                                const carnot_triton_request* b) {
  for (uint32_t i = 0; i < model->input_count; i++)
    for (int d = 1; d < a->dims[i].rank; d++)
      if (a->dims[i].d[d] != b->dims[i].d[d]) return false;
  return true;
}

bool carnot_triton_request_is_cancelled(const carnot_triton_request* request) {
  bool is_cancelled = false;
  TRITONSERVER_Error* error = TRITONBACKEND_RequestIsCancelled(request->handle, &is_cancelled);
  if (error) TRITONSERVER_ErrorDelete(error);
  return !error && is_cancelled;
}

void carnot_triton_request_answer(TRITONBACKEND_ModelInstance* instance,
                                  const carnot_triton_request* request,
                                  TRITONBACKEND_Response* response, carnot_status* status,
                                  const carnot_triton_times* times) {
  bool is_success = !status && response;
  if (!response)
    carnot_triton_log_error("no response", TRITONBACKEND_ResponseNew(&response, request->handle));
  TRITONSERVER_Error* error = carnot_triton_to_error(status);
  if (response)
    carnot_triton_log_error(
        "a response was not sent",
        TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  if (error) TRITONSERVER_ErrorDelete(error);
  carnot_triton_log_error("statistics of a request",
                          TRITONBACKEND_ModelInstanceReportStatistics(
                              instance, request->handle, is_success, times->start,
                              times->compute_start, times->compute_end, carnot_triton_now()));
  carnot_triton_log_error(
      "a request was not released",
      TRITONBACKEND_RequestRelease(request->handle, TRITONSERVER_REQUEST_RELEASE_ALL));
}
