// Imports one node: its inputs, its handler, and the names of its results.
#include <string.h>

#include "import/tensorflow/complex.h"
#include "import/tensorflow/plugin.h"
#include "import/tensorflow/scope.h"

static carnot_status* poison(tf_importer* importer, tf_slot* slot) {
  void* outputs;
  CARNOT_TRY(
      carnot_arena_try(&importer->state.arena, 1, sizeof(carnot_value*), "results", &outputs));
  slot->outputs = outputs;
  slot->outputs[0] = &import_poison;
  slot->output_count = 1;
  return NULL;
}

static carnot_status* note_unsupported(tf_importer* importer, const tf_scope* scope, tf_slot* slot,
                                       const char* reason) {
  const char* line = carnot_arena_print(
      &importer->state.arena, "node \"%s" CARNOT_VIEW_FMT "\": operator " CARNOT_VIEW_FMT ": %s",
      scope->prefix, CARNOT_VIEW_ARG(slot->proto->name), CARNOT_VIEW_ARG(slot->proto->op), reason);
  import_note_unsupported(&importer->state, line);
  return poison(importer, slot);
}

// The values of a handler get the node's names: the first "node", others "node:1".
static carnot_status* keep_outputs(tf_importer* importer, tf_import* n, tf_slot* slot,
                                   uint32_t first_node) {
  void* outputs;
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, (size_t)n->output_count + 1,
                              sizeof(carnot_value*), "results", &outputs));
  slot->outputs = outputs;
  slot->output_count = n->output_count;
  for (int i = 0; i < n->output_count; i++) {
    carnot_value* value = slot->outputs[i] = n->outputs[i];
    if (!value || !value->producer || value->producer->id < first_node) continue;
    const char* name =
        i ? carnot_arena_print(n->node.arena, "%s:%d", n->node.name, i) : n->node.name;
    name = import_unique_name(&importer->state, "", carnot_view(name));
    value->name = carnot_arena_text(n->node.arena, name, strlen(name));
  }
  return NULL;
}

// Handles of variables are passed on by these, and read by the rest of them.
static bool takes_handles(carnot_strview op) {
  static const char* const kOps[] = {"LookupTableFindV2",
                                     "LookupTableFind",
                                     "LookupTableSizeV2",
                                     "LookupTableSize",
                                     "Case",
                                     "StatelessCase",
                                     "ReadVariableOp",
                                     "VarIsInitializedOp",
                                     "ResourceGather",
                                     "Identity",
                                     "PartitionedCall",
                                     "If",
                                     "StatelessIf",
                                     "While",
                                     "StatelessWhile",
                                     "StatefulPartitionedCall"};
  for (size_t i = 0; i < sizeof(kOps) / sizeof(kOps[0]); i++)
    if (carnot_view_is(op, kOps[i])) return true;
  return false;
}

static carnot_status* run_handler(tf_importer* importer, tf_scope* scope, tf_slot* slot,
                                  tf_import* n) {
  const tf_node* proto = slot->proto;
  const int least = n->row->least_inputs, most = n->row->most_inputs;
  carnot_graph* graph = importer->state.graph;
  n->inputs = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, proto->input.count + 1);
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  const bool on_demand = least == TF_INPUTS_ON_DEMAND;
  bool is_complex = false;
  for (size_t i = 0; i < proto->input.count && !on_demand; i++) {
    if (proto->input.items[i].size && proto->input.items[i].data[0] == '^') continue;
    carnot_value* value = NULL;
    CARNOT_TRY(tf_scope_result(scope, proto->input.items[i], &value));
    if (value == &import_poison) {
      tf_look_into_functions(n);
      CARNOT_TRY(n->node.status);
      return poison(importer, slot);
    }
    is_complex |= tf_is_complex(value);
    if (tf_is_handle(value) && !takes_handles(proto->op))
      return note_unsupported(importer, scope, slot, "it reads a variable's handle");
    n->inputs[n->input_count++] = value;
  }
  CARNOT_CHECK(n->input_count >= least && (most < 0 || n->input_count <= most), INVALID_MODEL,
               "%d inputs; %d to %d are required", n->input_count, least, most < 0 ? 100000 : most);
  carnot_value* outputs[TF_MOST_OUTPUTS] = {NULL};
  n->outputs = outputs;
  n->output_count = 1;
  const uint32_t first_node = graph->node_count;
  if (is_complex)
    tf_handle_complex(n);
  else
    n->row->handler(n);
  if (n->node.status && carnot_status_code(n->node.status) == CARNOT_UNSUPPORTED &&
      !n->node.placed) {
    carnot_status* status =
        note_unsupported(importer, scope, slot, carnot_status_message(n->node.status));
    carnot_status_free(n->node.status);
    n->node.status = NULL;
    return status;
  }
  CARNOT_TRY(n->node.status);
  return keep_outputs(importer, n, slot, first_node);
}

carnot_status* tf_slot_import(tf_importer* importer, tf_scope* scope, tf_slot* slot) {
  const tf_node* proto = slot->proto;
  carnot_graph* graph = importer->state.graph;
  const tf_row* row = tf_slot_row(importer, slot);
  if (!row)
    return note_unsupported(importer, scope, slot,
                            tf_plugin_missing(proto->op, &importer->state.arena));
  const char* name = carnot_arena_print(&graph->arena, "%s" CARNOT_VIEW_FMT, scope->prefix,
                                        CARNOT_VIEW_ARG(proto->name));
  tf_import n = {.node = {.state = &importer->state,
                          .block = scope->block,
                          .arena = &graph->arena,
                          .name = name},
                 .importer = importer,
                 .scope = scope,
                 .proto = proto,
                 .row = row};
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  CARNOT_TRY(carnot_graph_status(graph));
  carnot_status* status = run_handler(importer, scope, slot, &n);
  if (!status || n.node.placed) return status;
  return carnot_status_annotate(status, "node \"%s\" (" CARNOT_VIEW_FMT ")", name,
                                CARNOT_VIEW_ARG(proto->op));
}
