// The metadata of a plan: one description of the format, run to write and to read it. Writing only
// reads the plan, which another thread may be writing too.
#include "engine/codec.h"

#include <stdlib.h>

// A stream in one of two directions. The first error stays and later calls do nothing. Writing
// without |bytes| counts them.
typedef struct stream {
  bool writing;
  unsigned char* bytes;
  size_t size, at;
  carnot_arena* arena;  // reading: where things are made
  carnot_status* status;
} stream;

static void move(stream* s, void* data, size_t size, const char* what) {
  if (s->status || size == 0) return;
  if (s->writing) {
    if (s->bytes) memcpy(s->bytes + s->at, data, size);
  } else {
    if (size > s->size - s->at) {
      s->status = CARNOT_ERROR(INVALID_MODEL,
                               "engine metadata end at byte %zu: %s needs %zu more, %zu are left",
                               s->at, what, size, s->size - s->at);
      return;
    }
    memcpy(data, s->bytes + s->at, size);
  }
  s->at += size;
}

// Numbers are little-endian in the file; this build runs on little-endian machines only.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the engine format is little-endian");

static void put_u32(stream* s, uint32_t* value, const char* what) { move(s, value, 4, what); }
static void put_u64(stream* s, uint64_t* value, const char* what) { move(s, value, 8, what); }
static void put_i64(stream* s, int64_t* value, const char* what) { move(s, value, 8, what); }
static void put_i32(stream* s, int32_t* value, const char* what) { move(s, value, 4, what); }
#define PUT_ENUM(s, field, what)          \
  do {                                    \
    uint32_t number_ = (uint32_t)(field); \
    put_u32((s), &number_, (what));       \
    if (!(s)->writing) (field) = number_; \
  } while (0)

// Room for |count| items when reading; each takes at least |least| bytes in the file, so a count
// cannot lie.
static void* room(stream* s, uint32_t count, size_t size, size_t least, const char* what) {
  if (s->status) return NULL;
  if (least && count > (s->size - s->at) / least) {
    s->status = CARNOT_ERROR(INVALID_MODEL,
                             "engine metadata at byte %zu: %u %s do not fit in the %zu bytes left",
                             s->at, count, what, s->size - s->at);
    return NULL;
  }
  void* memory = NULL;
  s->status = carnot_arena_try(s->arena, (size_t)count + 1, size, what, &memory);
  return memory;
}

// Declares |items| with |count| entries of |type|, made when reading.
#define PUT_ARRAY(s, items, count, type, least, what)          \
  put_u32((s), &(count), what);                                \
  if (!(s)->writing) {                                         \
    (items) = room((s), (count), sizeof(type), (least), what); \
    if ((s)->status) (count) = 0;                              \
  }                                                            \
  for (uint32_t i_ = 0; !(s)->status && i_ < (count); i_++)

static void put_text(stream* s, const char** text, const char* what) {
  uint32_t length = s->writing && *text ? (uint32_t)strlen(*text) : 0;
  put_u32(s, &length, what);
  if (!s->writing) {
    char* copy = room(s, length, 1, 1, what);
    *text = copy ? copy : "";
    move(s, copy, s->status ? 0 : length, what);
  } else if (length) {
    move(s, (void*)*text, length, what);
  }
}

static void put_indices(stream* s, const uint32_t** items, uint32_t* count, const char* what) {
  put_u32(s, count, what);
  if (!s->writing) *items = room(s, *count, sizeof(uint32_t), sizeof(uint32_t), what);
  if (!s->status) move(s, (void*)*items, (size_t)*count * sizeof(uint32_t), what);
}

static void put_bytes(stream* s, const void** data, uint32_t* count, const char* what) {
  put_u32(s, count, what);
  if (!s->writing) *data = room(s, *count, 1, 1, what);
  if (!s->status && *count) move(s, (void*)*data, *count, what);
}

static void put_shape(stream* s, carnot_tensor* t, const char* what) {
  PUT_ENUM(s, t->dtype, what);
  put_i32(s, &t->rank, what);
  if (!s->status && (t->rank < 0 || t->rank > CARNOT_MAX_RANK))
    s->status = CARNOT_ERROR(INVALID_MODEL, "%s: rank %d is outside [0, %d]", what, t->rank,
                             CARNOT_MAX_RANK);
  for (int i = 0; !s->status && i < t->rank; i++) put_i64(s, &t->dims[i], what);
}

static void put_f32(stream* s, float* value, const char* what) { move(s, value, 4, what); }

static void put_bool(stream* s, bool* value, const char* what) {
  uint32_t number = *value;
  put_u32(s, &number, what);
  if (!s->writing) *value = number != 0;
}

// Checked here, because readers use formats before the plan is verified.
static void put_format(stream* s, carnot_format* format, const char* what) {
  carnot_quantization* q = &format->quant;
  PUT_ENUM(s, format->dtype, what);
  PUT_ENUM(s, format->layout, what);
  PUT_ENUM(s, format->memory, what);
  PUT_ENUM(s, q->scheme, what);
  if (q->scheme != CARNOT_QUANT_NONE) {
    put_i32(s, &q->axis, what);
    put_i32(s, &q->block, what);
    put_f32(s, &q->scale, what);
    put_i32(s, &q->zero_point, what);
    put_u32(s, &q->scales, what);
    put_u32(s, &q->zero_points, what);
  }
  if (!s->status && !s->writing)
    s->status = carnot_status_annotate(carnot_format_verify(format), "%s", what);
}

// ---- attributes ----

static void put_view(stream* s, carnot_strview* view, const char* what) {
  uint32_t length = (uint32_t)view->size;
  const void* data = view->data;
  put_bytes(s, &data, &length, what);
  if (!s->writing) *view = (carnot_strview){data, length};
}

static void put_text_tensor(stream* s, carnot_tensor* t) {
  size_t bytes;
  if (!s->writing && !s->status) {
    s->status = carnot_dims_bytes(t->dtype, t->dims, t->rank, &bytes);
    int64_t count = s->status ? 0 : carnot_tensor_count(t);
    if (!s->status && (uint64_t)count > (s->size - s->at) / 4)
      s->status = CARNOT_ERROR(INVALID_MODEL, "a text attribute of %lld items does not fit",
                               (long long)count);
    if (!s->status) t->data = room(s, (uint32_t)count, sizeof(carnot_strview), 4, "text attribute");
  }
  carnot_strview* views = t->data;
  for (int64_t i = 0; !s->status && i < carnot_tensor_count(t); i++)
    put_view(s, &views[i], "text attribute");
}

static void put_tensor(stream* s, const carnot_tensor** tensor) {
  carnot_tensor t = {0};
  if (s->writing) t = **tensor;
  put_shape(s, &t, "tensor attribute");
  if (t.dtype == CARNOT_DTYPE_STRING) {
    put_text_tensor(s, &t);
  } else if (!s->status) {
    size_t bytes = 0;
    s->status = carnot_dims_bytes(t.dtype, t.dims, t.rank, &bytes);
    uint32_t count = (uint32_t)bytes;
    const void* data = t.data;
    if (!s->status && bytes > UINT32_MAX)
      s->status = CARNOT_ERROR(OUT_OF_RANGE, "a tensor attribute of %zu bytes is too large", bytes);
    put_bytes(s, &data, &count, "tensor attribute");
    if (!s->status && count != bytes)
      s->status = CARNOT_ERROR(INVALID_MODEL, "a tensor attribute holds %u bytes, must hold %zu",
                               count, bytes);
    t.data = (void*)data;
  }
  if (s->writing || s->status) return;
  carnot_tensor* copy = room(s, 1, sizeof(t), 0, "tensor attribute");
  if (copy) *copy = t;
  *tensor = copy;
}

static void put_attr(stream* s, carnot_attr* attr) {
  put_text(s, &attr->name, "attribute name");
  PUT_ENUM(s, attr->type, "attribute type");
  uint32_t count = (uint32_t)attr->count;
  switch (attr->type) {
    case CARNOT_ATTR_INT:
    case CARNOT_ATTR_BLOCK: put_i64(s, &attr->i, "attribute"); break;
    case CARNOT_ATTR_FLOAT: move(s, &attr->f, 8, "attribute"); break;
    case CARNOT_ATTR_STRING: put_view(s, &attr->s, "attribute"); break;
    case CARNOT_ATTR_TENSOR: put_tensor(s, &attr->tensor); break;
    case CARNOT_ATTR_INTS:
    case CARNOT_ATTR_FLOATS:
      put_u32(s, &count, "attribute");
      if (!s->writing) attr->ints = room(s, count, 8, 8, "attribute list");
      if (!s->status) move(s, (void*)attr->ints, (size_t)count * 8, "attribute list");
      break;
    case CARNOT_ATTR_STRINGS: {
      carnot_strview* strings = (carnot_strview*)attr->strings;
      PUT_ARRAY(s, strings, count, carnot_strview, 4, "attribute list")
      put_view(s, &strings[i_], "attribute");
      if (!s->writing) attr->strings = strings;
      break;
    }
    default:
      if (!s->status)
        s->status = CARNOT_ERROR(INVALID_MODEL, "attribute %s has type %d, which no engine holds",
                                 attr->name, (int)attr->type);
      break;
  }
  if (!s->writing) attr->count = count;
}

// ---- regions, steps ----

static void put_region(stream* s, carnot_region* region) {
  put_u32(s, &region->value_count, "region");
  PUT_ARRAY(s, region->nodes, region->node_count, carnot_plan_node, 20, "region nodes") {
    carnot_plan_node* node = &region->nodes[i_];
    const char* op = s->writing ? carnot_op_get(node->op)->name : "";
    put_text(s, &op, "operator name");
    if (!s->writing && !s->status) {
      node->op = carnot_op_find(carnot_view(op));
      if (node->op == CARNOT_OP_COUNT)
        s->status =
            CARNOT_ERROR(UNSUPPORTED, "the engine needs operator %s, which this runtime lacks", op);
    }
    put_text(s, &node->name, "node name");
    put_indices(s, &node->inputs, &node->input_count, "node inputs");
    put_indices(s, &node->outputs, &node->output_count, "node outputs");
    uint32_t attr_count = (uint32_t)node->attrs.count;
    carnot_attr* attrs = node->attrs.items;
    put_u32(s, &attr_count, "attributes");
    if (!s->writing) attrs = room(s, attr_count, sizeof(*attrs), 8, "attributes");
    for (uint32_t a = 0; !s->status && a < attr_count; a++) put_attr(s, &attrs[a]);
    if (!s->writing) node->attrs = (carnot_attrs){attrs, attr_count};
  }
  put_indices(s, &region->outputs, &region->output_count, "region outputs");
}

static void put_variant(stream* s, carnot_variant* v) {
  put_text(s, &v->tactic, "tactic");
  put_u32(s, &v->guard_count, "guards");
  if (!s->status && v->guard_count > CARNOT_MAX_GUARDS)
    s->status = CARNOT_ERROR(INVALID_MODEL, "a variant has %u guards, at most %d are allowed",
                             v->guard_count, CARNOT_MAX_GUARDS);
  for (uint32_t i = 0; !s->status && i < v->guard_count; i++) {
    put_u32(s, &v->guards[i].operand, "guard");
    put_u32(s, &v->guards[i].dim, "guard");
    put_i64(s, &v->guards[i].min, "guard");
    put_i64(s, &v->guards[i].max, "guard");
    put_i64(s, &v->guards[i].multiple, "guard");
  }
  put_indices(s, &v->constants, &v->constant_count, "packed constants");
  put_bytes(s, &v->params, &v->param_bytes, "tactic parameters");
}

static void put_operand_type(stream* s, carnot_operand_desc* t) {
  PUT_ENUM(s, t->kind, "operand");
  put_format(s, &t->format, "operand");
  put_bool(s, &t->is_constant, "operand");
  put_i32(s, &t->rank, "operand");
  if (!s->status &&
      (t->rank < -1 || t->rank > CARNOT_MAX_RANK || (unsigned)t->kind > CARNOT_VALUE_OPTIONAL))
    s->status = CARNOT_ERROR(INVALID_MODEL, "an operand of kind %d, type %d, rank %d", (int)t->kind,
                             (int)t->format.dtype, t->rank);
  for (int d = 0; !s->status && d < t->rank; d++) {
    put_i64(s, &t->dims[d], "operand");
    put_i64(s, &t->min[d], "operand");
    put_i64(s, &t->max[d], "operand");
  }
}

static void put_step(stream* s, carnot_plan_step* step) {
  put_text(s, &step->name, "step name");
  put_region(s, &step->region);
  put_indices(s, &step->inputs, &step->input_count, "step inputs");
  put_indices(s, &step->outputs, &step->output_count, "step outputs");
  put_bool(s, &step->is_shape, "step");
  put_u32(s, &step->variant_count, "variants");
  if (!s->status && (step->variant_count < 1 || step->variant_count > CARNOT_MAX_VARIANTS))
    s->status = CARNOT_ERROR(INVALID_MODEL, "step %s has %u variants, must have 1 to %d",
                             step->name, step->variant_count, CARNOT_MAX_VARIANTS);
  for (uint32_t i = 0; !s->status && i < step->variant_count; i++)
    put_variant(s, &step->variants[i]);
  PUT_ARRAY(s, step->types, step->type_count, carnot_operand_desc, 20, "operand types")
  put_operand_type(s, &step->types[i_]);
}

static void put_value(stream* s, carnot_plan_value* v, uint32_t profile_count) {
  put_text(s, &v->name, "value name");
  PUT_ENUM(s, v->kind, "value");
  put_format(s, &v->format, "value");
  PUT_ENUM(s, v->storage, "value");
  put_u32(s, &v->index, "value");
  put_i32(s, &v->axis, "value");
  put_indices(s, &v->before, &v->before_count, "value");
  put_u64(s, &v->max_bytes, "value");
  put_u32(s, &v->first_step, "value");
  put_u32(s, &v->last_step, "value");
  if (v->storage != CARNOT_STORAGE_ARENA || s->status) return;
  if (!s->writing) v->offsets = room(s, profile_count, 8, 8, "arena offsets");
  if (!s->status) move(s, (void*)v->offsets, (size_t)profile_count * 8, "arena offsets");
}

static void put_blob(stream* s, carnot_plan_blob* blob) {
  put_text(s, &blob->name, "weight name");
  put_text(s, &blob->packing, "packing");
  put_shape(s, &blob->tensor, "weight");
  put_u64(s, &blob->offset, "weight");
  put_u64(s, &blob->bytes, "weight");
  put_u64(s, &blob->hash, "weight");
  put_u32(s, &blob->refit_expr, "weight");
  put_bool(s, &blob->dropped, "weight");
}

static void put_value_ranges(stream* s, carnot_plan_binding* b, uint32_t profile_count) {
  put_u32(s, &b->value_count, "shape input");
  if (!s->status && b->value_count > CARNOT_MAX_SHAPE_ELEMENTS)
    s->status =
        CARNOT_ERROR(INVALID_MODEL, "shape input %s has %u elements, at most %d are allowed",
                     b->name, b->value_count, CARNOT_MAX_SHAPE_ELEMENTS);
  if (s->status) return;
  uint32_t count = profile_count * b->value_count;
  if (!s->writing)
    b->value_ranges =
        room(s, count, sizeof(carnot_dim_range), sizeof(carnot_dim_range), "shape input");
  if (!s->status)
    move(s, (void*)b->value_ranges, (size_t)count * sizeof(carnot_dim_range), "shape input");
}

static void put_binding(stream* s, carnot_plan_binding* b, uint32_t profile_count) {
  put_text(s, &b->name, "binding");
  uint32_t flags = (uint32_t)b->is_input | (uint32_t)b->is_shape << 1;
  put_u32(s, &flags, "binding");
  if (!s->writing) {
    b->is_input = flags & 1;
    b->is_shape = flags >> 1 & 1;
  }
  PUT_ENUM(s, b->format, "binding");
  put_u32(s, &b->value, "binding");
  PUT_ENUM(s, b->dtype, "binding");
  put_i32(s, &b->rank, "binding");
  if (!s->status && (b->rank < -1 || b->rank > CARNOT_MAX_RANK))
    s->status = CARNOT_ERROR(INVALID_MODEL, "tensor %s has rank %d, at most %d is allowed", b->name,
                             b->rank, CARNOT_MAX_RANK);
  for (int i = 0; !s->status && i < b->rank; i++) {
    put_i64(s, &b->dims[i], "binding");
    put_text(s, &b->dim_names[i], "binding");
  }
  if (!b->is_input || b->rank < 0 || s->status) return;
  uint32_t count = profile_count * (uint32_t)b->rank;
  if (!s->writing)
    b->ranges = room(s, count, sizeof(carnot_dim_range), sizeof(carnot_dim_range), "profile");
  if (!s->status) move(s, (void*)b->ranges, (size_t)count * sizeof(carnot_dim_range), "profile");
  if (b->is_shape) put_value_ranges(s, b, profile_count);
}

static void put_block(stream* s, carnot_plan_block* block) {
  put_indices(s, &block->params, &block->param_count, "block");
  put_indices(s, &block->outputs, &block->output_count, "block");
  put_u32(s, &block->first_step, "block");
  put_u32(s, &block->step_count, "block");
}

static void put_refit_expr(stream* s, carnot_refit_expr* refit_expr) {
  put_region(s, &refit_expr->region);
  put_indices(s, &refit_expr->inputs, &refit_expr->input_count, "refit_expr");
}

static void put_library(stream* s, carnot_plan_library* library) {
  put_text(s, &library->name, "plugin library");
  put_bytes(s, &library->data, &library->bytes, "plugin library");
}

static void put_plan(stream* s, carnot_plan* plan) {
  put_text(s, &plan->name, "plan");
  put_text(s, &plan->device, "plan");
  put_u32(s, &plan->isa, "plan");
  uint32_t flags = (uint32_t)plan->refittable | (uint32_t)plan->stripped << 1;
  put_u32(s, &flags, "plan");
  if (!s->writing) {
    plan->refittable = flags & 1;
    plan->stripped = flags >> 1 & 1;
  }
  put_u32(s, &plan->dynamic_count, "plan");
  put_u64(s, &plan->arena_bytes, "plan");
  put_u64(s, &plan->device_arena_bytes, "plan");
  put_u64(s, &plan->arena_bound, "plan");
  put_u64(s, &plan->workspace_bytes, "plan");
  put_u32(s, &plan->profile_count, "plan");
  if (!s->status && (plan->profile_count < 1 || plan->profile_count > 1024))
    s->status = CARNOT_ERROR(INVALID_MODEL, "%u profiles, must be 1 to 1024", plan->profile_count);
  PUT_ARRAY(s, plan->values, plan->value_count, carnot_plan_value, 40, "values")
  put_value(s, &plan->values[i_], plan->profile_count);
  PUT_ARRAY(s, plan->blobs, plan->blob_count, carnot_plan_blob, 44, "weights")
  put_blob(s, &plan->blobs[i_]);
  PUT_ARRAY(s, plan->steps, plan->step_count, carnot_plan_step, 40, "steps")
  put_step(s, &plan->steps[i_]);
  PUT_ARRAY(s, plan->blocks, plan->block_count, carnot_plan_block, 16, "blocks")
  put_block(s, &plan->blocks[i_]);
  PUT_ARRAY(s, plan->bindings, plan->binding_count, carnot_plan_binding, 20, "bindings")
  put_binding(s, &plan->bindings[i_], plan->profile_count);
  PUT_ARRAY(s, plan->refit_exprs, plan->refit_expr_count, carnot_refit_expr, 16, "refit_exprs")
  put_refit_expr(s, &plan->refit_exprs[i_]);
  PUT_ARRAY(s, plan->libraries, plan->library_count, carnot_plan_library, 8, "plugin libraries")
  put_library(s, &plan->libraries[i_]);
}

// The length of the inspector's data, the last of the metadata.
static void put_inspector_length(stream* s, const carnot_plan* plan) {
  uint32_t length = plan->inspector ? (uint32_t)strlen(plan->inspector) : 0;
  put_u32(s, &length, "inspector data");
}

carnot_status* carnot_plan_encode(const carnot_plan* plan, void** out_bytes, size_t* out_size) {
  *out_bytes = NULL;
  *out_size = 0;
  // The functions serve both directions; none writes to the plan when the stream is writing.
  carnot_plan* source = (carnot_plan*)(uintptr_t)plan;
  stream s = {.writing = true};
  put_plan(&s, source);
  put_inspector_length(&s, plan);
  CARNOT_TRY(s.status);
  s.bytes = malloc(s.at);
  if (!s.bytes) return CARNOT_NO_MEMORY(s.at, "engine metadata");
  s.at = 0;
  put_plan(&s, source);
  put_inspector_length(&s, plan);
  *out_bytes = s.bytes;
  *out_size = s.at;
  return s.status;
}

carnot_status* carnot_plan_decode(const void* bytes, size_t size, carnot_plan** out_plan) {
  CARNOT_TRY(carnot_plan_create(out_plan));
  stream s = {.bytes = (unsigned char*)bytes, .size = size, .arena = &(*out_plan)->arena};
  put_plan(&s, *out_plan);
  put_text(&s, &(*out_plan)->inspector, "inspector data");
  if (!s.status && s.at != size)
    s.status =
        CARNOT_ERROR(INVALID_MODEL, "engine metadata hold %zu bytes after their end", size - s.at);
  if (s.status) {
    carnot_plan_destroy(*out_plan);
    *out_plan = NULL;
  }
  return s.status;
}
