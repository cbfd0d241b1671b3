#include "triton/config.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "triton/convert.h"

const char* carnot_triton_config_file_name(const json_t* config) {
  const char* name = json_string_value(json_object_get(config, "default_model_filename"));
  return name && *name ? name : "model.plan";
}

// A number, which the server writes as text where it may need 64 bits.
static int64_t number_of(const json_t* value) {
  return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10)
                               : json_integer_value(value);
}

int64_t carnot_triton_config_default_batch(const json_t* config) {
  const json_t* flags = json_object_get(config, "cmdline");
  int64_t value = number_of(json_object_get(flags, "default-max-batch-size"));
  return value > 0 ? value : 4;  // the server's own default
}

// ---- batches ----

// The rank that an entry of the configuration gives its tensor, by reshape or dims; -1: none.
static int listed_rank(const json_t* entry) {
  const json_t* reshape = json_object_get(entry, "reshape");
  const json_t* dims = json_object_get(reshape ? reshape : entry, reshape ? "shape" : "dims");
  return reshape || json_array_size(dims) ? (int)json_array_size(dims) : -1;
}

static json_t* find_entry(const json_t* list, const char* name) {
  size_t i;
  json_t* entry;
  json_array_foreach(list, i, entry) {
    const char* found = json_string_value(json_object_get(entry, "name"));
    if (found && strcmp(found, name) == 0) return entry;
  }
  return NULL;
}

static const json_t* list_of(const json_t* config, const carnot_tensor_info* tensor) {
  return json_object_get(config, tensor->is_input ? "input" : "output");
}

// Whether a tensor is listed with all of its dimensions, so that the server may not add one.
static bool lists_whole_shapes(const json_t* config, const carnot_triton_model* model) {
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const json_t* entry = find_entry(list_of(config, &model->tensors[i]), model->tensors[i].name);
    if (entry && listed_rank(entry) == model->tensors[i].dims.rank) return true;
  }
  return false;
}

static carnot_status* apply_batch(json_t* config, bool complete, carnot_triton_model* model) {
  int64_t asked = number_of(json_object_get(config, "max_batch_size"));
  CARNOT_CHECK(asked <= model->plan_batch, INVALID_ARGUMENT,
               "max_batch_size is %" PRId64 ", must be at most %" PRId64 "%s", asked,
               model->plan_batch,
               model->plan_batch ? ", the largest of the plan's profiles"
                                 : ": the first dimension of this plan is no batch");
  bool add = asked == 0 && complete && !lists_whole_shapes(config, model);
  bool is_bounded = model->plan_batch < CARNOT_TRITON_OPEN_BATCH;
  model->max_batch = !add ? asked : is_bounded ? model->plan_batch : model->default_batch;
  if (!complete) return NULL;
  json_object_set_new(config, "max_batch_size", json_integer(model->max_batch));
  bool is_scheduled =
      json_object_get(config, "dynamic_batching") || json_object_get(config, "sequence_batching");
  if (model->max_batch > 1 && !is_scheduled)
    json_object_set_new(config, "dynamic_batching", json_object());
  return NULL;
}

// ---- inputs and outputs ----

// Whether the entry's dims allow what the plan has, from dimension |first| of the plan on.
static bool dims_fit(const json_t* listed, const carnot_dims* dims, int first) {
  if (dims->rank < 0) return true;  // known after a run
  if (json_array_size(listed) != (size_t)(dims->rank - first)) return false;
  for (int d = first; d < dims->rank; d++) {
    int64_t value = number_of(json_array_get(listed, (size_t)(d - first)));
    if (value != -1 && dims->d[d] != -1 && value != dims->d[d]) return false;
  }
  return true;
}

static carnot_status* check_entry(const json_t* entry, const carnot_tensor_info* tensor,
                                  int first) {
  const char* what = tensor->is_input ? "input" : "output";
  const char* type = json_string_value(json_object_get(entry, "data_type"));
  const char* expected = carnot_triton_type_name(carnot_triton_type(tensor->dtype));
  bool has_type = type && strcmp(type, "TYPE_INVALID") != 0;
  if (has_type && tensor->dtype != CARNOT_DTYPE_INVALID) {
    const char* name = strcmp(type, "TYPE_STRING") == 0 ? "TYPE_BYTES" : type;
    CARNOT_CHECK(strncmp(name, "TYPE_", 5) == 0 && strcmp(name + 5, expected) == 0,
                 INVALID_ARGUMENT, "%s %s is %s in the configuration, must be TYPE_%s", what,
                 tensor->name, type, expected);
  }
  const json_t* reshape = json_object_get(entry, "reshape");
  const json_t* listed = json_object_get(reshape ? reshape : entry, reshape ? "shape" : "dims");
  if (tensor->kind == CARNOT_DATA_TENSOR && listed_rank(entry) >= 0 &&
      !dims_fit(listed, &tensor->dims, first)) {
    char* given = json_dumps(listed, JSON_COMPACT);
    carnot_dims rest = {.rank = tensor->dims.rank - first};
    memcpy(rest.d, tensor->dims.d + first, sizeof(int64_t) * (size_t)rest.rank);
    char text[256];
    carnot_triton_dims_text(&rest, text, sizeof text);
    carnot_status* status = CARNOT_ERROR(
        INVALID_ARGUMENT, "%s %s has dims %s in the configuration, must be %s%s", what,
        tensor->name, given ? given : "", text, first ? " after the batch dimension" : "");
    free(given);
    return status;
  }
  return NULL;
}

// The dims of a tensor in the form of the configuration: an empty shape is [1] with a reshape.
static void complete_dims(json_t* entry, const carnot_tensor_info* tensor, int first) {
  json_t* dims = json_array();
  for (int d = first; d < tensor->dims.rank; d++)
    json_array_append_new(dims, json_integer(tensor->dims.d[d]));
  if (tensor->dims.rank < 0) json_array_append_new(dims, json_integer(-1));
  if (json_array_size(dims) == 0) {
    json_array_append_new(dims, json_integer(1));
    json_object_set_new(entry, "reshape", json_pack("{s:[]}", "shape"));
  }
  json_object_set_new(entry, "dims", dims);
}

static carnot_status* complete_entry(json_t* list, const carnot_tensor_info* tensor, int first) {
  json_t* entry = find_entry(list, tensor->name);
  CARNOT_CHECK(tensor->kind == CARNOT_DATA_TENSOR || (entry && listed_rank(entry) >= 0),
               INVALID_ARGUMENT,
               "input %s is optional, and its type is open in the plan: list it in config.pbtxt "
               "with data_type, dims and optional: true",
               tensor->name);
  if (!entry) {
    entry = json_object();
    json_array_append_new(list, entry);
    json_object_set_new(entry, "name", json_string(tensor->name));
  }
  if (tensor->kind != CARNOT_DATA_TENSOR) return NULL;
  char type[32];
  TRITONSERVER_DataType known = carnot_triton_type(tensor->dtype);
  bool is_text = known == TRITONSERVER_TYPE_BYTES;
  snprintf(type, sizeof type, "TYPE_%s", is_text ? "STRING" : carnot_triton_type_name(known));
  json_object_set_new(entry, "data_type", json_string(type));
  if (listed_rank(entry) < 0) complete_dims(entry, tensor, first);
  return NULL;
}

// INVALID_ARGUMENT for an entry of |key| that is no tensor of the plan.
static carnot_status* check_names(const json_t* config, const char* key, bool is_input,
                                  const carnot_triton_model* model) {
  size_t i;
  const json_t* entry;
  json_array_foreach(json_object_get(config, key), i, entry) {
    const char* name = json_string_value(json_object_get(entry, "name"));
    bool is_known = false;
    for (uint32_t k = 0; k < model->tensor_count && name; k++)
      is_known |=
          model->tensors[k].is_input == is_input && strcmp(model->tensors[k].name, name) == 0;
    CARNOT_CHECK(is_known, INVALID_ARGUMENT, "%s %s of the configuration is none of the plan %s",
                 key, name ? name : "(no name)", carnot_engine_name(model->engine));
  }
  return NULL;
}

static carnot_status* apply_tensors(json_t* config, bool complete,
                                    const carnot_triton_model* model) {
  CARNOT_TRY(check_names(config, "input", true, model));
  CARNOT_TRY(check_names(config, "output", false, model));
  for (uint32_t i = 0; i < model->tensor_count; i++) {
    const carnot_tensor_info* tensor = &model->tensors[i];
    const char* key = tensor->is_input ? "input" : "output";
    json_t* list = json_object_get(config, key);
    if (complete && !list) {
      json_object_set_new(config, key, json_array());
      list = json_object_get(config, key);
    }
    int first = model->max_batch > 0;
    const json_t* entry = find_entry(list, tensor->name);
    if (entry) CARNOT_TRY(check_entry(entry, tensor, first));
    if (complete) CARNOT_TRY(complete_entry(list, tensor, first));
  }
  return NULL;
}

// ---- instances ----

static int processor_count(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Parameter "threads"; without it the processors are shared out among the instances.
static carnot_status* apply_threads(const json_t* config, carnot_triton_model* model) {
  const json_t* parameter = json_object_get(json_object_get(config, "parameters"), "threads");
  const char* text = json_string_value(json_object_get(parameter, "string_value"));
  if (text) {
    char* end;
    long value = strtol(text, &end, 10);
    CARNOT_CHECK(*text && !*end && value >= 1 && value <= 4096, INVALID_ARGUMENT,
                 "parameter threads is \"%s\", must be a number in [1, 4096]", text);
    model->thread_count = (int)value;
    return NULL;
  }
  int64_t instances = 0;
  size_t i;
  const json_t* group;
  json_array_foreach(json_object_get(config, "instance_group"), i, group) {
    int64_t count = number_of(json_object_get(group, "count"));
    instances += count > 0 ? count : 1;
  }
  int64_t share = instances > 1 ? processor_count() / instances : 0;
  model->thread_count = instances > 1 ? (int)(share > 1 ? share : 1) : 0;
  return NULL;
}

carnot_status* carnot_triton_config_apply(json_t* config, bool complete,
                                          carnot_triton_model* model) {
  CARNOT_TRY(apply_batch(config, complete, model));
  CARNOT_TRY(apply_tensors(config, complete, model));
  return apply_threads(config, model);
}
