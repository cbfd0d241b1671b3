// What all built-in plugins share: they hold their fields, and hand calls on to their row.
#include "plugin/builtin.h"

#include <stdio.h>
#include <stdlib.h>

// One table a family, as the files' names have it.
#define FAMILIES(X) X(norm) X(bert) X(shape) X(vision) X(anchor) X(detection) X(nms)

#define DECLARE(family) extern const carnot_plugin_builtins carnot_plugins_##family;
FAMILIES(DECLARE)
#undef DECLARE

const carnot_plugin_builtins* const* carnot_plugin_builtin_tables(size_t* out_count) {
  static const carnot_plugin_builtins* const kTables[] = {
#define ENTRY(family) &carnot_plugins_##family,
      FAMILIES(ENTRY)
#undef ENTRY
  };
  *out_count = sizeof(kTables) / sizeof(kTables[0]);
  return kTables;
}

typedef struct builtin {
  carnot_plugin plugin;
  const carnot_plugin_builtin* row;
  carnot_arena arena;
  carnot_fields fields;
} builtin;

bool carnot_plugin_refuse(carnot_plugin_error* error, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(error->message, sizeof(error->message), format, args);
  va_end(args);
  return false;
}

// ---- the plugin interface ----

static carnot_dtype dtype_at(const char* letters, int32_t index) {
  while (index-- > 0 && letters[1] && letters[1] != ' ') letters++;
  return *letters == 'i'   ? CARNOT_DTYPE_I32
         : *letters == 'l' ? CARNOT_DTYPE_I64
         : *letters == 'b' ? CARNOT_DTYPE_BOOL
                           : CARNOT_DTYPE_F32;
}

carnot_dtype carnot_plugin_kernel_dtype(const carnot_plugin_kernel* kernel, bool output,
                                        int32_t index) {
  return dtype_at(output ? strchr(kernel->dtypes, ' ') + 1 : kernel->dtypes, index);
}

static bool output_dtypes(void* self, const carnot_dtype* inputs, int32_t input_count,
                          carnot_dtype* outputs, int32_t output_count, carnot_plugin_error* error) {
  const builtin* b = self;
  for (int32_t i = 0; i < input_count; i++) {
    carnot_dtype wanted = carnot_plugin_kernel_dtype(b->row->kernel, false, i);
    if (inputs[i] != CARNOT_DTYPE_INVALID && inputs[i] != wanted)
      return carnot_plugin_refuse(error, "input %d has type %s, must be %s", i,
                                  carnot_dtype_name(inputs[i]), carnot_dtype_name(wanted));
  }
  for (int32_t i = 0; i < output_count; i++)
    outputs[i] = carnot_plugin_kernel_dtype(b->row->kernel, true, i);
  return true;
}

static bool output_dims(void* self, const carnot_plugin_shape* inputs, int32_t input_count,
                        carnot_plugin_shape* outputs, int32_t output_count,
                        const carnot_exprs* exprs, carnot_plugin_error* error) {
  const builtin* b = self;
  (void)output_count;
  if (input_count < b->row->min_inputs || input_count > b->row->max_inputs)
    return carnot_plugin_refuse(error, "%d inputs, must be %d to %d", input_count,
                                b->row->min_inputs, b->row->max_inputs);
  return b->row->kernel->output_dims(&b->fields, inputs, input_count, outputs, exprs, error);
}

static bool supports(void* self, int32_t position, const carnot_plugin_format* operands,
                     int32_t input_count, int32_t output_count) {
  const builtin* b = self;
  (void)output_count;
  bool output = position >= input_count;
  carnot_dtype wanted = carnot_plugin_kernel_dtype(b->row->kernel, output,
                                                   output ? position - input_count : position);
  return operands[position].dtype == wanted && operands[position].layout == CARNOT_PLUGIN_LINEAR;
}

static bool enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error) {
  const builtin* b = self;
  return b->row->kernel->compute(&b->fields, run, error);
}

static size_t workspace_bytes(void* self, const carnot_plugin_tensor* inputs, int32_t input_count,
                              const carnot_plugin_tensor* outputs, int32_t output_count) {
  const builtin* b = self;
  (void)outputs, (void)output_count;
  return b->row->kernel->workspace_bytes
             ? b->row->kernel->workspace_bytes(&b->fields, inputs, input_count)
             : 0;
}

static bool serialize(void* self, const carnot_plugin_field** out_fields, int32_t* out_count,
                      carnot_plugin_error* error) {
  const builtin* b = self;
  (void)error;
  *out_fields = b->fields.items;
  *out_count = b->fields.count;
  return true;
}

static void destroy(void* self) {
  builtin* b = self;
  carnot_arena_deinit(&b->arena);
  free(b);
}

// A field that the creator does not list is a mistake more often than not.
static bool fields_known(const carnot_plugin_builtin* row, const carnot_plugin_field* fields,
                         int32_t count, carnot_plugin_error* error) {
  for (int32_t i = 0; i < count; i++) {
    if (carnot_field_find(row->fields, row->field_count, fields[i].name)) continue;
    char names[300] = "";
    for (int32_t k = 0; k < row->field_count; k++) {
      size_t at = strlen(names);
      snprintf(names + at, sizeof(names) - at, "%s%s", k ? ", " : "", row->fields[k].name);
    }
    return carnot_plugin_refuse(error, "it has no field %s; its fields are: %s", fields[i].name,
                                names[0] ? names : "none");
  }
  return true;
}

static carnot_status* copy_fields(builtin* b, const carnot_plugin_field* fields, int32_t count) {
  carnot_strview bytes;
  CARNOT_TRY(carnot_fields_pack(fields, count, &b->arena, &bytes));
  return carnot_fields_unpack(bytes, &b->arena, &b->fields);
}

carnot_plugin* carnot_plugin_builtin_create(void* user, const char* name,
                                            const carnot_plugin_field* fields, int32_t field_count,
                                            carnot_plugin_phase phase, carnot_plugin_error* error) {
  const carnot_plugin_builtin* row = user;
  (void)name, (void)phase;
  if (!fields_known(row, fields, field_count, error)) return NULL;
  builtin* b = calloc(1, sizeof(*b));
  carnot_status* status =
      b ? copy_fields(b, fields, field_count) : CARNOT_NO_MEMORY(sizeof(*b), "a plugin");
  if (status) {
    carnot_plugin_refuse(error, "%s", carnot_status_message(status));
    carnot_status_free(status);
    if (b) destroy(b);
    return NULL;
  }
  b->row = row;
  b->plugin = (carnot_plugin){
      .size = sizeof(carnot_plugin),
      .api_version = CARNOT_PLUGIN_API_VERSION,
      .name = row->name,
      .version = row->version,
      .name_space = "",
      .self = b,
      .output_count = row->count_outputs ? row->count_outputs(&b->fields) : row->output_count,
      .serialize = serialize,
      .destroy = destroy};
  if (!row->kernel) return &b->plugin;
  b->plugin.output_dtypes = output_dtypes;
  b->plugin.output_dims = output_dims;
  b->plugin.supports = supports;
  b->plugin.workspace_bytes = workspace_bytes;
  b->plugin.enqueue = enqueue;
  return &b->plugin;
}

// ---- fields by name ----

double carnot_fields_at(const carnot_fields* fields, const char* name, int32_t index) {
  const carnot_plugin_field* f = carnot_field_find(fields->items, fields->count, name);
  return f ? carnot_field_number(f, index) : 0;
}
int32_t carnot_fields_length(const carnot_fields* fields, const char* name) {
  const carnot_plugin_field* f = carnot_field_find(fields->items, fields->count, name);
  return f ? f->length : 0;
}
double carnot_fields_float(const carnot_fields* fields, const char* name, double absent) {
  return carnot_fields_length(fields, name) > 0 ? carnot_fields_at(fields, name, 0) : absent;
}
int64_t carnot_fields_int_at(const carnot_fields* fields, const char* name, int32_t index) {
  // A hostile engine may say anything: what no field of int32 could hold is 0.
  double value = carnot_fields_at(fields, name, index);
  return value >= INT32_MIN && value <= INT32_MAX ? (int64_t)value : 0;
}
int64_t carnot_fields_int(const carnot_fields* fields, const char* name, int64_t absent) {
  return carnot_fields_length(fields, name) > 0 ? carnot_fields_int_at(fields, name, 0) : absent;
}
