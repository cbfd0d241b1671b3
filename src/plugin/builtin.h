// Built-in plugins: TensorRT's names with their versions and fields.
//
// Most are fronts: they add the operators that they consist of, so that fusion and refit work on
// them. The others compute by a kernel of their own, as any plugin does.
#ifndef CARNOT_PLUGIN_BUILTIN_H_
#define CARNOT_PLUGIN_BUILTIN_H_

#include "plugin/registry.h"

struct carnot_front;

// A kernel over float32 (or as |dtypes| has it) tensors, through the plugin interface.
typedef struct carnot_plugin_kernel {
  // Types of the operands in order, one letter each: f float32, i int32, b bool, l int64; the last
  // letter repeats. Inputs, then a space, then outputs.
  const char* dtypes;
  bool (*output_dims)(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                      int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* exprs,
                      carnot_plugin_error* error);
  bool (*compute)(const carnot_fields* fields, const carnot_plugin_run* run,
                  carnot_plugin_error* error);
  size_t (*workspace_bytes)(const carnot_fields* fields, const carnot_plugin_tensor* inputs,
                            int32_t input_count);
} carnot_plugin_kernel;

typedef struct carnot_plugin_builtin {
  const char* name;
  const char* version;
  const carnot_plugin_field* fields;
  int32_t field_count;
  int32_t min_inputs, max_inputs, output_count;
  // Adds operators whose results are the plugin's outputs; NULL: the kernel alone.
  void (*expand)(struct carnot_front* front);
  const carnot_plugin_kernel* kernel;
  // Number of outputs where these fields decide it; NULL: |output_count|.
  int32_t (*count_outputs)(const carnot_fields* fields);
} carnot_plugin_builtin;

typedef struct carnot_plugin_builtins {
  const carnot_plugin_builtin* rows;
  size_t count;
} carnot_plugin_builtins;

#define CARNOT_BUILTINS(rows) \
  { rows, sizeof(rows) / sizeof((rows)[0]) }
// A row's field list and its length.
#define CARNOT_FIELD_LIST(fields) fields, (int32_t)(sizeof(fields) / sizeof((fields)[0]))

// A line of a field list: without a default, or with one.
#define CARNOT_FIELD(name, TYPE) \
  { name, NULL, CARNOT_FIELD_##TYPE, 1 }

// The type that a kernel takes or gives.
carnot_dtype carnot_plugin_kernel_dtype(const carnot_plugin_kernel* kernel, bool output,
                                        int32_t index);

const carnot_plugin_builtins* const* carnot_plugin_builtin_tables(size_t* out_count);

// The creator's function of every built-in.
carnot_plugin* carnot_plugin_builtin_create(void* user, const char* name,
                                            const carnot_plugin_field* fields, int32_t field_count,
                                            carnot_plugin_phase phase, carnot_plugin_error* error);

// ---- for kernels: fields by name, or |absent| ----

int64_t carnot_fields_int(const carnot_fields* fields, const char* name, int64_t absent);
double carnot_fields_float(const carnot_fields* fields, const char* name, double absent);
// The number of elements; element |index| by carnot_fields_at.
int32_t carnot_fields_length(const carnot_fields* fields, const char* name);
double carnot_fields_at(const carnot_fields* fields, const char* name, int32_t index);
int64_t carnot_fields_int_at(const carnot_fields* fields, const char* name, int32_t index);
// Writes the message and gives false.
bool carnot_plugin_refuse(carnot_plugin_error* error, const char* format, ...) CARNOT_PRINTF(2, 3);

#endif  // CARNOT_PLUGIN_BUILTIN_H_
