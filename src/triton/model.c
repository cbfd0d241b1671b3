#include "triton/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "triton/config.h"
#include "triton/convert.h"
#include "triton/plan_file.h"

// ---- what the plan says ----

static carnot_status* check_kind(const carnot_tensor_info* tensor) {
  const char* what = tensor->is_input ? "input" : "output";
  if (tensor->is_input && tensor->kind == CARNOT_DATA_OPTIONAL) return NULL;
  CARNOT_CHECK(tensor->kind == CARNOT_DATA_TENSOR, UNSUPPORTED,
               "%s %s is a sequence or an optional; Triton's %ss are tensors", what, tensor->name,
               what);
  CARNOT_CHECK(carnot_triton_type(tensor->dtype) != TRITONSERVER_TYPE_INVALID, UNSUPPORTED,
               "%s %s is %s, a type that Triton does not have", what, tensor->name,
               carnot_dtype_name(tensor->dtype));
  return NULL;
}

static carnot_status* read_tensors(carnot_triton_model* model) {
  model->tensor_count = carnot_engine_tensor_count(model->engine);
  model->tensors = calloc(model->tensor_count, sizeof *model->tensors);
  if (!model->tensors) return CARNOT_NO_MEMORY(model->tensor_count, "tensors");
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    CARNOT_TRY(carnot_engine_tensor_info(model->engine, i, &model->tensors[i]));
    CARNOT_TRY(check_kind(&model->tensors[i]));
    model->input_count += model->tensors[i].is_input;
  }
  model->output_count = model->tensor_count - model->input_count;
  return NULL;
}

static carnot_status* read_profiles(carnot_triton_model* model) {
  model->profile_count = carnot_engine_profile_count(model->engine);
  size_t count = (size_t)model->profile_count * model->input_count;
  model->ranges = calloc(count + 1, sizeof *model->ranges);
  if (!model->ranges) return CARNOT_NO_MEMORY(count * sizeof *model->ranges, "profiles");
  for (uint32_t p = 0; p < model->profile_count; p++)
    for (uint32_t i = 0; i < model->input_count; i++) {
      carnot_triton_range* range = &model->ranges[p * model->input_count + i];
      CARNOT_TRY(carnot_engine_profile_shapes(model->engine, p, model->tensors[i].name, &range->min,
                                              &range->opt, &range->max));
    }
  return NULL;
}

// Whether dimension 0 of every tensor is open and, where it has a name, has one name: the batch.
static bool has_batch(const carnot_triton_model* model) {
  const char* name = "";
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const carnot_tensor_info* tensor = &model->tensors[i];
    if (tensor->dims.rank < 1 || tensor->dims.d[0] != -1 || tensor->is_shape) return false;
    const char* own = tensor->dim_names[0];
    if (*own && *name && strcmp(own, name) != 0) return false;
    if (*own) name = own;
  }
  return model->input_count > 0;
}

static int64_t largest_batch(const carnot_triton_model* model) {
  int64_t largest = 0;
  for (uint32_t p = 0; p < model->profile_count; p++) {
    int64_t rows = CARNOT_TRITON_OPEN_BATCH;
    for (uint32_t i = 0; i < model->input_count; i++) {
      int64_t most = model->ranges[p * model->input_count + i].max.d[0];
      rows = most < rows ? most : rows;
    }
    largest = rows > largest ? rows : largest;
  }
  return largest;
}

bool carnot_triton_range_takes(const carnot_triton_range* range, const carnot_dims* dims) {
  if (dims->rank < 0 || range->max.rank < 0) return true;
  if (dims->rank != range->max.rank) return false;
  for (int d = 0; d < dims->rank; d++)
    if (dims->d[d] < range->min.d[d] || dims->d[d] > range->max.d[d]) return false;
  return true;
}

// How far |dims| are from what the profile was tuned for, in elements of all dimensions.
static uint64_t distance(const carnot_triton_range* range, const carnot_dims* dims) {
  uint64_t sum = 0;
  for (int d = 0; d < dims->rank && d < range->opt.rank; d++)
    sum += (uint64_t)llabs((long long)(dims->d[d] - range->opt.d[d]));
  return sum;
}

uint32_t carnot_triton_model_find_profile(const carnot_triton_model* model,
                                          const carnot_dims* dims) {
  uint32_t best = model->profile_count;
  uint64_t least = UINT64_MAX;
  for (uint32_t p = 0; p < model->profile_count; p++) {
    const carnot_triton_range* ranges = &model->ranges[p * model->input_count];
    uint64_t sum = 0;
    bool fits = true;
    for (uint32_t i = 0; i < model->input_count && fits; i++) {
      fits = carnot_triton_range_takes(&ranges[i], &dims[i]);
      sum += distance(&ranges[i], &dims[i]);
    }
    if (!fits || sum >= least) continue;
    best = p;
    least = sum;
  }
  return best;
}

// ---- what the configuration says ----

static carnot_status* parse_message(TRITONSERVER_Message* message, json_t** out_config) {
  const char* text;
  size_t size;
  json_error_t error;
  CARNOT_TRY(carnot_triton_from_error(TRITONSERVER_MessageSerializeToJson(message, &text, &size)));
  *out_config = json_loadb(text, size, 0, &error);
  CARNOT_CHECK(*out_config, INVALID_ARGUMENT, "the server's configuration is no JSON: %s",
               error.text);
  return NULL;
}

static carnot_status* read_config(TRITONBACKEND_Model* handle, json_t** out_config) {
  TRITONSERVER_Message* message;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelConfig(handle, 1, &message)));
  carnot_status* status = parse_message(message, out_config);
  carnot_status_free(carnot_triton_from_error(TRITONSERVER_MessageDelete(message)));
  return status;
}

static carnot_status* read_default_batch(TRITONBACKEND_Model* handle, int64_t* out_batch) {
  TRITONBACKEND_Backend* backend;
  TRITONSERVER_Message* message;
  json_t* config;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelBackend(handle, &backend)));
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_BackendConfig(backend, &message)));
  CARNOT_TRY(parse_message(message, &config));
  *out_batch = carnot_triton_config_default_batch(config);
  json_decref(config);
  return NULL;
}

static carnot_status* write_config(TRITONBACKEND_Model* handle, const json_t* config) {
  char* text = json_dumps(config, JSON_COMPACT);
  if (!text) return CARNOT_NO_MEMORY(0, "the configuration");
  TRITONSERVER_Message* message;
  carnot_status* status = carnot_triton_from_error(
      TRITONSERVER_MessageNewFromSerializedJson(&message, text, strlen(text)));
  free(text);
  CARNOT_TRY(status);
  status = carnot_triton_from_error(TRITONBACKEND_ModelSetConfig(handle, 1, message));
  carnot_status_free(carnot_triton_from_error(TRITONSERVER_MessageDelete(message)));
  return status;
}

static carnot_status* plan_path(TRITONBACKEND_Model* handle, const json_t* config, char* path,
                                size_t size) {
  TRITONBACKEND_ArtifactType kind;
  const char* folder;
  uint64_t version;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelRepository(handle, &kind, &folder)));
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelVersion(handle, &version)));
  CARNOT_CHECK(kind == TRITONBACKEND_ARTIFACT_FILESYSTEM, UNSUPPORTED,
               "models are read from folders only");
  int length = snprintf(path, size, "%s/%" PRIu64 "/%s", folder, version,
                        carnot_triton_config_file_name(config));
  CARNOT_CHECK(length > 0 && (size_t)length < size, INVALID_ARGUMENT, "%s: the path is too long",
               folder);
  return NULL;
}

static carnot_status* load(TRITONBACKEND_Model* handle, json_t* config,
                           carnot_triton_model* model) {
  char path[4096];
  CARNOT_TRY(plan_path(handle, config, path, sizeof path));
  CARNOT_TRY(carnot_triton_load_plan(path, &model->engine));
  CARNOT_TRY_AT(read_tensors(model), "%s", path);
  CARNOT_TRY(read_profiles(model));
  model->plan_batch = has_batch(model) ? largest_batch(model) : 0;
  CARNOT_TRY(read_default_batch(handle, &model->default_batch));
  bool complete;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelAutoCompleteConfig(handle, &complete)));
  CARNOT_TRY_AT(carnot_triton_config_apply(config, complete, model), "%s", path);
  return complete ? write_config(handle, config) : NULL;
}

carnot_status* carnot_triton_model_create(TRITONBACKEND_Model* handle,
                                          carnot_triton_model** out_model) {
  *out_model = NULL;
  json_t* config;
  CARNOT_TRY(read_config(handle, &config));
  carnot_triton_model* model = calloc(1, sizeof *model);
  carnot_status* status =
      model ? load(handle, config, model) : CARNOT_NO_MEMORY(sizeof *model, "a model");
  json_decref(config);
  if (status)
    carnot_triton_model_destroy(model);
  else
    *out_model = model;
  return status;
}

void carnot_triton_model_destroy(carnot_triton_model* model) {
  if (!model) return;
  carnot_engine_release(model->engine);
  free(model->tensors);
  free(model->ranges);
  free(model);
}
