// The layers that depend on placeholders of a loop or conditional in flat form, and their copies in
// bodies.
#include "api/builder/flat_form.h"

#include <stdlib.h>

enum { kMaxInputs = 256 };  // of a layer

static carnot_status* find_members(carnot_flat_form* form) {
  carnot_block* block = form->network->scope->block;
  for (carnot_node* node = block->first; node; node = node->next) {
    bool depends = false;
    for (int i = 0; i < node->input_count; i++)
      depends = depends || (node->inputs[i] && form->depends[node->inputs[i]->id]);
    if (!depends) continue;
    form->members[form->member_count++] = node;
    for (int i = 0; i < node->output_count; i++) {
      if (!node->outputs[i]) continue;
      form->depends[node->outputs[i]->id] = true;
      CARNOT_CHECK(!node->outputs[i]->block_output_count, INVALID_MODEL,
                   "value %s belongs to the body of a loop or conditional and is an output of the "
                   "network; add an output of the loop or conditional for it",
                   node->outputs[i]->name);
    }
  }
  return NULL;
}

carnot_status* carnot_flat_form_open(carnot_network* network, carnot_value* const* placeholders,
                                     int count, carnot_flat_form* form) {
  *form = (carnot_flat_form){.network = network, .value_count = network->graph->value_count};
  size_t values = form->value_count, nodes = network->graph->node_count;
  void *members, *depends, *in;
  CARNOT_TRY(carnot_calloc(nodes, sizeof(*form->members), "the layers of a body", &members));
  form->members = members;
  CARNOT_TRY(carnot_calloc(values, sizeof(*form->depends), "the values of a body", &depends));
  form->depends = depends;
  CARNOT_TRY(carnot_calloc(values, sizeof(carnot_value*), "the values of a body", &in));
  form->in = in;
  for (int i = 0; i < count; i++) form->depends[placeholders[i]->id] = true;
  return find_members(form);
}

void carnot_flat_form_close(carnot_flat_form* form) {
  free(form->members);
  free(form->depends);
  free(form->in);
}

carnot_value* carnot_flat_form_inside(const carnot_flat_form* form, carnot_value* value) {
  bool is_mapped = value && value->id < form->value_count && form->in[value->id];
  return is_mapped ? form->in[value->id] : value;
}

// Marks the members that |value| is computed from in |needed| (by position among the members).
static void mark_needed(const carnot_flat_form* form, const carnot_value* value, bool* needed) {
  if (!value || !value->producer || !form->depends[value->id]) return;
  for (size_t k = 0; k < form->member_count; k++) {
    if (form->members[k] != value->producer || needed[k]) continue;
    needed[k] = true;
    for (int i = 0; i < value->producer->input_count; i++)
      mark_needed(form, value->producer->inputs[i], needed);
  }
}

// Adds a member again, to the innermost open body.
static carnot_status* add_again(carnot_flat_form* form, const carnot_node* node) {
  carnot_value* inputs[kMaxInputs];
  CARNOT_CHECK(node->input_count <= kMaxInputs, UNSUPPORTED,
               "layer %s inside a loop or conditional has %d inputs; at most %d are possible",
               node->name, node->input_count, kMaxInputs);
  for (int i = 0; i < node->input_count; i++)
    inputs[i] = carnot_flat_form_inside(form, node->inputs[i]);
  carnot_node* made;
  carnot_attrs attrs;
  CARNOT_TRY(carnot_copy_bodies(form->network->graph, &node->attrs, &attrs));
  CARNOT_TRY(carnot_network_add(form->network, node->op, &attrs, inputs, node->input_count,
                                node->output_count, &made));
  made->type_name = node->type_name;
  made->precision = node->precision;
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    made->outputs[i]->forced_dtype = node->outputs[i]->forced_dtype;
    form->in[node->outputs[i]->id] = made->outputs[i];
  }
  return NULL;
}

carnot_status* carnot_flat_form_find_needed(const carnot_flat_form* form,
                                            carnot_value* const* values, int count,
                                            bool** out_needed) {
  void* needed;
  *out_needed = NULL;
  CARNOT_TRY(carnot_calloc(form->member_count + 1, sizeof(bool), "the layers of a body", &needed));
  *out_needed = needed;
  for (int i = 0; i < count; i++) mark_needed(form, values[i], needed);
  return NULL;
}

carnot_status* carnot_flat_form_add_needed(carnot_flat_form* form, carnot_value* const* values,
                                           int count) {
  bool* needed;
  CARNOT_TRY(carnot_flat_form_find_needed(form, values, count, &needed));
  carnot_status* status = NULL;
  for (size_t k = 0; k < form->member_count && !status; k++)
    if (needed[k]) status = add_again(form, form->members[k]);
  free(needed);
  return status;
}

static void remove_unused(carnot_node* node) {
  bool used = false;
  for (int i = 0; i < node->output_count; i++)
    used = used || (node->outputs[i] && carnot_value_used(node->outputs[i]));
  if (!used) carnot_node_remove(node);
}

// What still has a reader computes the first condition.
void carnot_flat_form_remove(const carnot_flat_form* form, carnot_value* const* placeholders,
                             int count) {
  for (size_t k = form->member_count; k > 0; k--) remove_unused(form->members[k - 1]);
  for (int i = 0; i < count; i++) remove_unused(placeholders[i]->producer);
}
