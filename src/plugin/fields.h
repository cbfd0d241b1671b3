// Plugin fields as bytes: how graphs and engines hold them.
#ifndef CARNOT_PLUGIN_FIELDS_H_
#define CARNOT_PLUGIN_FIELDS_H_

#include "base/arena.h"
#include "base/strview.h"
#include "carnot/plugin.h"

typedef struct carnot_fields {
  carnot_plugin_field* items;
  int32_t count;
} carnot_fields;

const char* carnot_field_type_name(carnot_field_type type);
// Bytes of |length| elements.
size_t carnot_field_bytes(carnot_field_type type, int32_t length);

// The fields as bytes in |arena|. INVALID_ARGUMENT names a field without name, data or known type.
carnot_status* carnot_fields_pack(const carnot_plugin_field* fields, int32_t count,
                                  carnot_arena* arena, carnot_strview* out_bytes) CARNOT_MUST_USE;
// The fields that |bytes| hold, copied into |arena|. INVALID_MODEL where they break the form.
carnot_status* carnot_fields_unpack(carnot_strview bytes, carnot_arena* arena,
                                    carnot_fields* out_fields) CARNOT_MUST_USE;

// The field, or NULL.
const carnot_plugin_field* carnot_field_find(const carnot_plugin_field* fields, int32_t count,
                                             const char* name);
// Element |index| of a field of numbers; 0 for text and dimensions.
double carnot_field_number(const carnot_plugin_field* field, int32_t index);

#endif  // CARNOT_PLUGIN_FIELDS_H_
