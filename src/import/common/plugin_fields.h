// What a model says of a plugin, as the plugin's fields: shared by the frontends.
#ifndef CARNOT_IMPORT_COMMON_PLUGIN_FIELDS_H_
#define CARNOT_IMPORT_COMMON_PLUGIN_FIELDS_H_

#include "import/common/emit.h"
#include "plugin/fields.h"

// The numbers of an attribute, whatever kind it has.
typedef struct import_numbers {
  int64_t count;
  bool is_float;
  const double* floats;
  const int64_t* ints;
} import_numbers;

// Nothing after an error.
import_numbers import_numbers_of_floats(import_node* n, const float* values, size_t count);
import_numbers import_numbers_of_tensor(import_node* n, const carnot_tensor* tensor);

// Attribute |name| as a field of |type|; UNKNOWN: of the type that the numbers have. An error names
// the attribute, and the element that the type cannot hold.
void import_number_field(import_node* n, const char* name, carnot_field_type type,
                         const import_numbers* values, carnot_plugin_field* out);

// True for the attributes plugin_version and plugin_namespace, which are no fields.
bool import_names_plugin(const char* attribute);

#endif  // CARNOT_IMPORT_COMMON_PLUGIN_FIELDS_H_
