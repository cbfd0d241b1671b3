// Loops and conditionals in flat form: the layers that depend on placeholders, and their copies in
// bodies. Used by flat_control.c.
#ifndef CARNOT_API_BUILDER_FLAT_FORM_H_
#define CARNOT_API_BUILDER_FLAT_FORM_H_

#include "api/builder/network.h"
#include "carnot/control_flow.h"

// The dependents of placeholders, and what each value of the flat form is in a body.
typedef struct carnot_flat_form {
  carnot_network* network;
  carnot_node** members;  // in order
  size_t member_count;
  bool* depends;      // by value id
  carnot_value** in;  // by value id: the value inside the body being written; NULL: itself
  uint32_t value_count;
} carnot_flat_form;

// Finds the members. INVALID_MODEL where one computes an output of the network. Close it after an
// error too.
carnot_status* carnot_flat_form_open(carnot_network* network, carnot_value* const* placeholders,
                                     int count, carnot_flat_form* form) CARNOT_MUST_USE;
void carnot_flat_form_close(carnot_flat_form* form);

// What |value| is in the body being written.
carnot_value* carnot_flat_form_inside(const carnot_flat_form* form, carnot_value* value);
// needed[k]: member k is needed for one of |values| [count]. The caller frees *out_needed.
carnot_status* carnot_flat_form_find_needed(const carnot_flat_form* form,
                                            carnot_value* const* values, int count,
                                            bool** out_needed) CARNOT_MUST_USE;
// Adds the members that |values| [count] need to the innermost open body.
carnot_status* carnot_flat_form_add_needed(carnot_flat_form* form, carnot_value* const* values,
                                           int count) CARNOT_MUST_USE;
// Removes the members and placeholders that nothing reads: the bodies compute them.
void carnot_flat_form_remove(const carnot_flat_form* form, carnot_value* const* placeholders,
                             int count);

#endif  // CARNOT_API_BUILDER_FLAT_FORM_H_
