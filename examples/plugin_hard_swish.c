// A plugin library in C: y = x * clip(x / 6 + shift, 0, 1), the field "shift" float32 (0.5).
//
// Built as a shared object that links nothing of Carnot. Use it so:
//   carnot exec --onnx=model.onnx --plugins=libplugin_hard_swish.so
// where a node of the model has op_type ExampleHardSwish.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carnot/plugin.h"

typedef struct hard_swish {
  carnot_plugin plugin;
  float shift;
  carnot_plugin_field field;
} hard_swish;

static bool output_dims(void* self, const carnot_plugin_shape* inputs, int32_t input_count,
                        carnot_plugin_shape* outputs, int32_t output_count,
                        const carnot_exprs* exprs, carnot_plugin_error* error) {
  (void)self, (void)output_count, (void)exprs;
  if (input_count != 1) {
    snprintf(error->message, sizeof(error->message), "%d inputs, must be 1", input_count);
    return false;
  }
  outputs[0] = inputs[0];
  return true;
}

// Any layout does, since elements stand alone; it must be the same on both sides.
static bool supports(void* self, int32_t position, const carnot_plugin_format* operands,
                     int32_t input_count, int32_t output_count) {
  (void)self, (void)input_count, (void)output_count;
  return operands[position].dtype == CARNOT_DTYPE_F32 &&
         operands[position].layout == operands[0].layout;
}

enum { PART = 16384 };

typedef struct job {
  const float* x;
  float* y;
  int64_t count;
  float shift;
} job;

static void compute_part(void* arg, int64_t part) {
  const job* j = arg;
  int64_t end = (part + 1) * PART < j->count ? (part + 1) * PART : j->count;
  for (int64_t i = part * PART; i < end; i++)
    j->y[i] = j->x[i] * fminf(fmaxf(j->x[i] / 6 + j->shift, 0), 1);
}

static bool enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error) {
  (void)error;
  job j = {run->inputs[0].data, run->outputs[0].data, 1, ((hard_swish*)self)->shift};
  for (int32_t d = 0; d < run->inputs[0].dims.rank; d++) j.count *= run->inputs[0].dims.d[d];
  run->threads->parallel(run->threads->host, (j.count + PART - 1) / PART, compute_part, &j);
  return true;
}

static bool serialize(void* self, const carnot_plugin_field** out_fields, int32_t* out_count,
                      carnot_plugin_error* error) {
  hard_swish* h = self;
  (void)error;
  h->field = (carnot_plugin_field){"shift", &h->shift, CARNOT_FIELD_FLOAT32, 1};
  *out_fields = &h->field;
  *out_count = 1;
  return true;
}

static void destroy(void* self) { free(self); }

static carnot_plugin* make(float shift);
static carnot_plugin* clone(void* self, carnot_plugin_error* error) {
  (void)error;
  return make(((hard_swish*)self)->shift);
}

static carnot_plugin* make(float shift) {
  hard_swish* h = calloc(1, sizeof(*h));
  if (!h) return NULL;
  h->shift = shift;
  h->plugin = (carnot_plugin){.size = sizeof(carnot_plugin),
                              .api_version = CARNOT_PLUGIN_API_VERSION,
                              .name = "ExampleHardSwish",
                              .version = "1",
                              .self = h,
                              .output_count = 1,
                              .output_dims = output_dims,
                              .supports = supports,
                              .enqueue = enqueue,
                              .serialize = serialize,
                              .clone = clone,
                              .destroy = destroy};
  return &h->plugin;
}

static carnot_plugin* create(void* user, const char* name, const carnot_plugin_field* fields,
                             int32_t field_count, carnot_plugin_phase phase,
                             carnot_plugin_error* error) {
  (void)user, (void)name, (void)phase;
  float shift = 0.5f;
  for (int32_t i = 0; i < field_count; i++) {
    if (strcmp(fields[i].name, "shift") != 0) continue;
    if (fields[i].type != CARNOT_FIELD_FLOAT32 || fields[i].length != 1) {
      snprintf(error->message, sizeof(error->message), "field shift must be one float32");
      return NULL;
    }
    memcpy(&shift, fields[i].data, sizeof(shift));
  }
  return make(shift);
}

static const float kShift = 0.5f;
static const carnot_plugin_field kFields[] = {{"shift", &kShift, CARNOT_FIELD_FLOAT32, 1}};
static const carnot_plugin_creator kCreator = {.size = sizeof(carnot_plugin_creator),
                                               .api_version = CARNOT_PLUGIN_API_VERSION,
                                               .name = "ExampleHardSwish",
                                               .version = "1",
                                               .fields = kFields,
                                               .field_count = 1,
                                               .create = create};

CARNOT_API int32_t carnot_plugin_creators(const carnot_plugin_creator* const** out_creators);
int32_t carnot_plugin_creators(const carnot_plugin_creator* const** out_creators) {
  static const carnot_plugin_creator* const kCreators[] = {&kCreator};
  *out_creators = kCreators;
  return 1;
}
