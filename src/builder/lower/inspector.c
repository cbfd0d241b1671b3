// The inspector's data: what each layer of the engine is, in JSON with TensorRT's field names and
// Carnot's own beside.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "builder/lower/lower.h"

static json_t* dims_json(carnot_lowering* l, const carnot_type* type) {
  json_t* dims = json_array();
  for (int d = 0; d < type->rank; d++) {
    carnot_sym dim = type->dims[d];
    json_array_append_new(dims, json_integer(carnot_sym_is_const(dim) ? dim.bits : -1));
  }
  (void)l;
  return dims;
}

static json_t* value_json(carnot_lowering* l, uint32_t index) {
  const carnot_value_builder* v = &l->values[index];
  char format[128];
  snprintf(format, sizeof(format), "%s %s", carnot_layout_name(v->plan.format.layout),
           carnot_dtype_name(v->plan.format.dtype));
  const bool is_part = v->plan.storage == CARNOT_STORAGE_SUBVIEW;
  return json_pack("{s:s?, s:o, s:s, s:s*}", "Name", v->plan.name, "Dimensions",
                   dims_json(l, &v->from->type), "Format/Datatype", format, "PartOf",
                   is_part ? l->values[v->plan.index].plan.name : NULL);
}

static json_t* values_json(carnot_lowering* l, const uint32_t* values, uint32_t count,
                           bool constants) {
  json_t* list = json_array();
  for (uint32_t i = 0; i < count; i++) {
    if (values[i] == CARNOT_PLAN_NONE) continue;
    bool constant = l->values[values[i]].plan.storage == CARNOT_STORAGE_CONSTANT;
    if (constant == constants) json_array_append_new(list, value_json(l, values[i]));
  }
  return list;
}

// What an operator is called: a function, a plugin or itself.
static const char* operator_name(carnot_arena* arena, const carnot_plan_node* node) {
  const carnot_attr* attr = carnot_attrs_find(&node->attrs, "fn");
  if (attr && attr->type == CARNOT_ATTR_INT) return carnot_fn_get((carnot_fn)attr->i)->name;
  attr = node->op == CARNOT_OP_PLUGIN ? carnot_attrs_find(&node->attrs, "name") : NULL;
  return attr ? carnot_arena_text(arena, attr->s.data, attr->s.size)
              : carnot_op_get(node->op)->name;
}

// The operand |local| of a node of |step|: a tensor, or the node of the region that makes it.
static const char* operand_name(const carnot_lowering* l, const carnot_plan_step* step,
                                uint32_t local) {
  if (local < step->input_count)
    return step->inputs[local] == CARNOT_PLAN_NONE ? NULL
                                                   : l->values[step->inputs[local]].plan.name;
  for (uint32_t n = 0; n < step->region.node_count; n++)
    for (uint32_t i = 0; i < step->region.nodes[n].output_count; i++)
      if (step->region.nodes[n].outputs[i] == local) return step->region.nodes[n].name;
  return NULL;
}

static json_t* operators_json(carnot_lowering* l, const carnot_plan_step* step) {
  json_t* list = json_array();
  for (uint32_t i = 0; i < step->region.node_count; i++) {
    const carnot_plan_node* node = &step->region.nodes[i];
    const char* name = operator_name(&l->plan->arena, node);
    json_t* inputs = json_array();
    for (uint32_t k = 0; k < node->input_count; k++) {
      const char* operand =
          node->inputs[k] == CARNOT_PLAN_NONE ? NULL : operand_name(l, step, node->inputs[k]);
      if (operand) json_array_append_new(inputs, json_string(operand));
    }
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:o}", "Name", node->name, "Operator", name, "Inputs", inputs));
  }
  return list;
}

// The variants before the last, in the order in which they are tried: the tactic and the sizes of
// an operand that it is for. Dimension -1: the product of all.
static json_t* guarded_json(carnot_lowering* l, const carnot_plan_step* step) {
  json_t* list = json_array();
  for (uint32_t i = 0; i + 1 < step->variant_count; i++) {
    const carnot_guard* guard = &step->variants[i].guards[0];
    if (!step->variants[i].guard_count || guard->min > guard->max) continue;
    const char* operand = operand_name(l, step, guard->operand);
    json_t* sizes = json_pack("{s:s, s:s, s:i, s:I, s:I}", "TacticName", step->variants[i].tactic,
                              "Input", operand ? operand : "", "Dimension",
                              guard->dim == CARNOT_GUARD_ELEMENTS ? -1 : (int)guard->dim, "Min",
                              (json_int_t)guard->min, "Max", (json_int_t)guard->max);
    json_array_append_new(list, sizes);
  }
  return list;
}

static json_t* step_json(carnot_lowering* l, uint32_t index) {
  const carnot_plan_step* step = &l->plan->steps[index];
  const carnot_step_note* note = &l->notes[index];
  json_t* layer = json_object();
  json_object_set_new(layer, "Name", json_string(step->name));
  json_object_set_new(layer, "LayerType", json_string(note->layer_type));
  json_object_set_new(layer, "Inputs", values_json(l, step->inputs, step->input_count, false));
  json_object_set_new(layer, "Outputs", values_json(l, step->outputs, step->output_count, false));
  json_object_set_new(layer, "Constants", values_json(l, step->inputs, step->input_count, true));
  json_object_set_new(layer, "Operators", operators_json(l, step));
  const char* name = step->variants[step->variant_count - 1].tactic;
  json_object_set_new(layer, "TacticName", json_string(name));
  json_object_set_new(layer, "TacticValue", json_string(name));
  const carnot_tactic* tactic = carnot_tactic_find(name);
  json_object_set_new(layer, "Numerics",
                      json_string(tactic ? carnot_numerics_name(tactic->numerics) : ""));
  json_object_set_new(layer, "Precision", json_string(carnot_dtype_name(note->precision)));
  json_object_set_new(layer, "Flops", json_real(note->flops));
  json_object_set_new(layer, "Bytes", json_real(note->bytes));
  json_object_set_new(layer, "TimeUs", json_real(note->time_us));
  json_object_set_new(layer, "Rejected", json_string(note->rejected));
  if (note->unfused) json_object_set_new(layer, "Unfused", json_string(note->unfused));
  json_t* guarded = guarded_json(l, step);
  if (json_array_size(guarded))
    json_object_set_new(layer, "Variants", guarded);
  else
    json_decref(guarded);
  return layer;
}

static json_t* bindings_json(carnot_lowering* l) {
  json_t* list = json_array();
  const carnot_plan* plan = l->plan;
  for (uint32_t i = 0; i < plan->binding_count; i++)
    json_array_append_new(list, json_string(plan->bindings[i].name));
  return list;
}

// A value in the arena: where it is planned for the first profile, and the steps, both included,
// between which it lives.
static json_t* memory_json(const carnot_plan_value* v) {
  return json_pack("{s:s, s:I, s:I, s:i, s:i, s:s}", "Name", v->name, "Offset",
                   (json_int_t)v->offsets[0], "Bytes", (json_int_t)v->max_bytes, "FirstLayer",
                   (int)v->first_step, "LastLayer", (int)v->last_step, "Memory",
                   v->format.memory >= CARNOT_MEMORY_DEVICE ? "device" : "host");
}

// What the engine calls beside the driver. Generated programs need NVRTC where the host does not
// allow the machine code that the engine carries.
static json_t* libraries_json(const carnot_plan* plan) {
  uint32_t sources = 0;
  bool programs = false;
  json_t* list = json_array();
  for (uint32_t s = 0; s < plan->step_count; s++)
    for (uint32_t k = 0; k < plan->steps[s].variant_count; k++) {
      const carnot_tactic* tactic = carnot_tactic_find(plan->steps[s].variants[k].tactic);
      sources |= tactic ? tactic->sources : 0;
    }
  for (uint32_t i = 0; i < plan->blob_count; i++) programs |= carnot_blob_is_code(&plan->blobs[i]);
  for (int i = 0; i < CARNOT_SOURCE_COUNT; i++)
    if (sources >> i & 1)
      json_array_append_new(list, json_string(carnot_tactic_source_name((carnot_tactic_source)i)));
  if (programs) json_array_append_new(list, json_string("NVRTC"));
  return list;
}

// ---- text ----

// What was written so far, with a NUL: |bytes| from malloc.
typedef struct text {
  char* bytes;
  size_t size, capacity;
} text;

// A json_dump_callback_t: 0, or -1 without memory.
static int append(const char* data, size_t size, void* user) {
  text* t = user;
  if (size + 1 > t->capacity - t->size) {
    size_t wanted = t->capacity + t->capacity / 2 + size + 4096;
    char* grown = realloc(t->bytes, wanted);
    if (!grown) return -1;
    t->bytes = grown;
    t->capacity = wanted;
  }
  memcpy(t->bytes + t->size, data, size);
  t->size += size;
  t->bytes[t->size] = 0;
  return 0;
}

static bool append_text(text* t, const char* data) { return append(data, strlen(data), t) == 0; }

// Writes |item| and drops it: one at a time, as all of them take many times their text.
static bool write_item(text* out, const char* before, json_t* item) {
  bool is_written =
      item && append_text(out, before) &&
      json_dump_callback(item, append, out,
                         JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) == 0;
  json_decref(item);
  return is_written;
}

static bool write_memory(const carnot_lowering* l, text* out) {
  bool good = append_text(out, ",\"Memory\":[");
  const char* before = "";
  for (uint32_t i = 0; i < l->value_count && good; i++) {
    const carnot_plan_value* v = &l->values[i].plan;
    if (v->storage != CARNOT_STORAGE_ARENA || !v->offsets) continue;
    good = write_item(out, before, memory_json(v));
    before = ",";
  }
  return good && append_text(out, "]");
}

static bool write_plan(carnot_lowering* l, text* out) {
  const carnot_plan* plan = l->plan;
  bool good =
      write_item(out, "{\"Name\":", json_string(plan->name)) && append_text(out, ",\"Layers\":[");
  for (uint32_t i = 0; i < plan->step_count && good; i++)
    good = write_item(out, i ? "," : "", step_json(l, i));
  return good && write_item(out, "],\"Bindings\":", bindings_json(l)) &&
         write_item(out, ",\"Libraries\":", libraries_json(plan)) && write_memory(l, out) &&
         write_item(out, ",\"ActivationBytes\":", json_integer((json_int_t)plan->arena_bytes)) &&
         write_item(out,
                    ",\"ActivationBoundBytes\":", json_integer((json_int_t)plan->arena_bound)) &&
         append_text(out, "}");
}

// Most layers take less. Memory that nobody writes to costs nothing, and a text that never moves is
// never there twice.
enum { kBytesPerLayer = 2048 };

carnot_status* carnot_lowering_inspect(carnot_lowering* l) {
  text out = {.capacity = ((size_t)l->plan->step_count + 1) * kBytesPerLayer};
  out.bytes = malloc(out.capacity);
  if (!out.bytes || !write_plan(l, &out)) {
    free(out.bytes);
    return CARNOT_ERROR(OUT_OF_MEMORY, "no memory for the inspector's data");
  }
  char* shrunk = realloc(out.bytes, out.size + 1);
  l->plan->inspector = l->plan->inspector_text = shrunk ? shrunk : out.bytes;
  return NULL;
}
