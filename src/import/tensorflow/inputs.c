// Makes placeholders and nodes that a graph is cut at inputs of the network.
#include "import/tensorflow/inputs.h"

#include <string.h>

#include "import/tensorflow/complex.h"

carnot_strview tf_without_zero(carnot_strview name) {
  if (name.size > 2 && memcmp(name.data + name.size - 2, ":0", 2) == 0) name.size -= 2;
  return name;
}

// The type that attributes give to result |index| of a node.
static carnot_dtype declared_dtype(const tf_node* node, size_t index) {
  static const char* const kTypes[] = {"dtype", "DstT", "out_type", "output_type", "T"};
  static const char* const kLists[] = {"Tout", "output_types", "component_types"};
  carnot_dtype dtype = CARNOT_DTYPE_INVALID;
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]) && !dtype; i++) {
    const tf_attr_value* value = tf_attr_find(node, kTypes[i]);
    if (value) dtype = tf_dtype(value->type);
  }
  for (size_t i = 0; i < sizeof(kLists) / sizeof(kLists[0]) && !dtype; i++) {
    const tf_attr_value* value = tf_attr_find(node, kLists[i]);
    if (value && value->list && index < value->list->type.count)
      dtype = tf_dtype(value->list->type.items[index]);
  }
  return dtype;
}

// The shape that attributes give to result |index|; NULL: none.
static const tf_shape* declared_shape(const tf_node* node, size_t index) {
  static const char* const kLists[] = {"output_shapes", "_output_shapes", "shapes"};
  const tf_attr_value* value = tf_attr_find(node, "shape");
  if (value && (value->present & TF_HAS_SHAPE)) return value->shape;
  for (size_t i = 0; i < sizeof(kLists) / sizeof(kLists[0]); i++) {
    value = tf_attr_find(node, kLists[i]);
    if (value && value->list && index < value->list->shape.count)
      return &value->list->shape.items[index];
  }
  return NULL;
}

static carnot_status* declared_type(tf_importer* importer, const tf_node* node, size_t index,
                                    carnot_type* out) {
  tf_import n = {.node = {.state = &importer->state}, .proto = node};
  *out =
      (carnot_type){.kind = CARNOT_VALUE_TENSOR, .dtype = declared_dtype(node, index), .rank = -1};
  tf_read_shape(&n, declared_shape(node, index), out);
  return carnot_status_annotate(n.node.status, "node \"" CARNOT_VIEW_FMT "\"",
                                CARNOT_VIEW_ARG(node->name));
}

// The type of what |name| refers to: imported into a block that is left out, as what it is computed
// from is no part of the network and may not be supported.
static carnot_status* probe_type(tf_importer* importer, carnot_strview name, const tf_node* node,
                                 size_t index, carnot_type* out, bool* out_complex) {
  tf_scope probe = {.prefix = ""};
  carnot_value* value;
  importer->state.is_quiet = true;
  CARNOT_TRY(tf_scope_init(importer, &probe, &importer->graph->node,
                           carnot_block_create(importer->state.graph)));
  carnot_status* status = tf_scope_value(importer, &probe, name, &value);
  importer->state.is_quiet = false;
  const bool is_known = !status && value != &import_poison && !tf_is_handle(value);
  carnot_status_free(status);
  *out_complex = is_known && tf_is_complex(value);
  if (is_known) *out = value->type;
  if (*out_complex) {
    tf_import n = {.node = {.state = &importer->state}, .proto = node};
    out->dtype = tf_complex_part(&n, value, 0)->type.dtype;
    tf_complex_pair_type(&n, out);
    return n.node.status;
  }
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  // A PlaceholderWithDefault may be more open than its default.
  if (is_known && !carnot_view_is(node->op, "PlaceholderWithDefault")) return NULL;
  return declared_type(importer, node, index, out);
}

const char* tf_claim_name(tf_importer* importer, carnot_strview wanted) {
  import_name_slot* reserved = import_name_map_find(&importer->reserved, wanted);
  const bool is_free = reserved && reserved->item;
  if (is_free) reserved->item = NULL;
  const carnot_strview name =
      is_free ? wanted : carnot_view(import_unique_name(&importer->state, "", wanted));
  return carnot_arena_text(&importer->state.graph->arena, name.data, name.size);
}

// Gives result |index| of a node the value |input|; the results before it stay unknown.
static carnot_status* cut_at(tf_importer* importer, tf_slot* slot, int index, carnot_value* input) {
  void* memory;
  const int count = index < slot->output_count ? slot->output_count : index + 1;
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, (size_t)count, sizeof(carnot_value*),
                              "an input", &memory));
  carnot_value** outputs = memory;
  for (int i = 0; i < slot->output_count; i++) outputs[i] = slot->outputs[i];
  outputs[index] = input;
  slot->outputs = outputs;
  slot->output_count = count;
  slot->state = TF_DONE;
  slot->is_cut = true;
  return NULL;
}

carnot_status* tf_input_make(tf_importer* importer, tf_scope* scope, carnot_strview name,
                             carnot_strview wanted) {
  tf_reference r;
  const bool is_reference = tf_reference_read(name, &r) && !r.is_control;
  const import_name_slot* found = is_reference ? import_name_map_find(&scope->nodes, r.node) : NULL;
  CARNOT_CHECK(found, NOT_FOUND, "input " CARNOT_VIEW_FMT " is no node of the graph",
               CARNOT_VIEW_ARG(name));
  tf_slot* slot = found->item;
  carnot_value* value;
  const char* unique = tf_claim_name(importer, wanted);
  if (carnot_view_is(slot->proto->op, "Placeholder") && slot->state == TF_NEW) {
    CARNOT_TRY(tf_scope_value(importer, scope, name, &value));
    if (value != &import_poison && tf_is_complex(value)) value = tf_complex_pairs(value);
    if (value != &import_poison && !carnot_view_is(wanted, value->name)) value->name = unique;
    return NULL;
  }
  const int64_t index = tf_output_number(slot, &r);
  CARNOT_CHECK(index >= 0 && index < TF_MOST_OUTPUTS, NOT_FOUND,
               "input " CARNOT_VIEW_FMT ": the node has no such result", CARNOT_VIEW_ARG(name));
  const bool is_free = slot->is_cut && (index >= slot->output_count || !slot->outputs[index]);
  CARNOT_CHECK(slot->state == TF_NEW || is_free, INVALID_ARGUMENT,
               "input " CARNOT_VIEW_FMT ": another input is computed from it or is the same",
               CARNOT_VIEW_ARG(name));
  carnot_type type;
  bool is_complex;
  CARNOT_TRY(probe_type(importer, name, slot->proto, (size_t)index, &type, &is_complex));
  CARNOT_CHECK(type.kind == CARNOT_VALUE_TENSOR && type.dtype != CARNOT_DTYPE_INVALID, UNSUPPORTED,
               "input " CARNOT_VIEW_FMT ": its type is not known", CARNOT_VIEW_ARG(name));
  value = carnot_block_add_param(scope->block, unique, &type);
  if (is_complex) {
    tf_import n = {.node = {.state = &importer->state,
                            .block = scope->block,
                            .arena = &importer->state.graph->arena,
                            .name = unique},
                   .importer = importer};
    value = tf_complex_split(&n, value);
    CARNOT_TRY(n.node.status);
  }
  return cut_at(importer, slot, (int)index, value);
}
