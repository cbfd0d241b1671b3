// The packed weights of a step, and the primitive descriptors that decide their layout.
#include "backend/cpu/onednn/onednn_weights.h"

#include <string.h>

#include "tactic/tactic.h"

static size_t align_up(size_t bytes) { return carnot_align_up(bytes, CARNOT_ONEDNN_ALIGN); }

// ---- primitive descriptors of all parts ----

void carnot_onednn_forget(const carnot_onednn_parts* parts, carnot_onednn_descriptions* d) {
  for (int64_t i = 0; i < parts->count; i++)
    if (d->of[i] && d->twin[i] == i) d->library->primitive_desc_destroy(d->of[i]);
  if (d->usual) d->library->primitive_desc_destroy(d->usual);
}

// The layout of the weights of |column| is the one that |desc|, of |shape|, has.
static carnot_status* take_layout(const carnot_onednn_shape* shape,
                                  const onednn_primitive_desc* desc, int64_t column,
                                  carnot_onednn_descriptions* d) {
  const onednn_memory_desc* weights =
      d->library->primitive_desc_query_md(desc, ONEDNN_QUERY_ARGUMENT, ONEDNN_ARG_WEIGHTS);
  d->weights[column] = weights;
  d->weights_at[column] = d->bytes;
  d->bytes = align_up(d->bytes + d->library->memory_desc_get_size(weights));
  return carnot_onednn_hash_layout(d->library, shape, weights, &d->header.layout);
}

// |shape| at sizes that every build and every load choose the layout for, where those of runs are
// not known.
static carnot_onednn_shape usual_of(carnot_onednn_shape shape) {
  enum { kRows = 128, kPixels = 14 };
  shape.n = shape.is_matmul ? kRows : 1;
  if (shape.is_matmul) return shape;
  shape.p = shape.q = kPixels;
  shape.h = (kPixels - 1) * shape.stride_h + (shape.r - 1) * shape.dilation_h + 1;
  shape.w = (kPixels - 1) * shape.stride_w + (shape.s - 1) * shape.dilation_w + 1;
  shape.pad_h = shape.pad_w = shape.pad_h_end = shape.pad_w_end = 0;
  return shape;
}

static carnot_status* describe_usual(const carnot_onednn_shape* shape,
                                     carnot_onednn_descriptions* d) {
  const carnot_onednn_shape usual = usual_of(*shape);
  CARNOT_TRY(
      carnot_onednn_describe(d->library, &usual, NULL, /*takes_reference=*/false, &d->usual));
  return take_layout(&usual, d->usual, /*column=*/0, d);
}

// The first part of a column chooses the layout of its weights, and the others take it. At open
// sizes a part for which the library has no fast code with that layout gets one of its own, and
// reference code where there is no other: a context takes every size that the engine allows.
static carnot_status* describe_part(const carnot_onednn_parts* parts, int64_t i,
                                    carnot_onednn_descriptions* d) {
  const carnot_onednn_part* part = &parts->items[i];
  int64_t twin = 0;
  while (memcmp(&parts->items[twin].shape, &part->shape, sizeof(part->shape)) != 0) twin++;
  d->twin[i] = twin;
  d->of[i] = d->of[twin];
  d->repacks[i] = d->repacks[twin];
  if (twin == i) {
    carnot_status* status = carnot_onednn_describe(
        d->library, &part->shape, d->weights[part->column], /*takes_reference=*/false, &d->of[i]);
    d->repacks[i] = parts->is_open && carnot_status_code(status) == CARNOT_UNSUPPORTED;
    if (d->repacks[i]) {
      carnot_status_free(status);
      status = carnot_onednn_describe(d->library, &part->shape, NULL, /*takes_reference=*/true,
                                      &d->of[i]);
    }
    CARNOT_TRY(status);
  }
  return d->weights[part->column] ? NULL : take_layout(&part->shape, d->of[i], part->column, d);
}

carnot_status* carnot_onednn_describe_parts(const carnot_onednn_parts* parts,
                                            carnot_onednn_descriptions* d) {
  *d = (carnot_onednn_descriptions){.bytes = sizeof(carnot_onednn_weights_header)};
  CARNOT_TRY(carnot_onednn_open(&d->library));
  memcpy(d->header.version, d->library->version, sizeof(d->header.version));
  d->header.columns = (int32_t)parts->columns;
  d->header.is_open = parts->is_open;
  const int saved = carnot_onednn_enter(d->library);
  carnot_status* status = parts->is_open ? describe_usual(&parts->items[0].shape, d) : NULL;
  for (int64_t i = 0; i < parts->count && !status; i++) status = describe_part(parts, i, d);
  carnot_onednn_leave(d->library, saved);
  if (status) carnot_onednn_forget(parts, d);
  return status;
}

carnot_status* carnot_onednn_try_parts(const carnot_onednn_parts* parts) {
  carnot_onednn_descriptions d;
  CARNOT_TRY(carnot_onednn_describe_parts(parts, &d));
  carnot_onednn_forget(parts, &d);
  return NULL;
}

// ---- build ----

static carnot_status* pack(const carnot_onednn_parts* parts, const carnot_onednn_weights* weights,
                           const carnot_onednn_descriptions* d, char* packed) {
  memcpy(packed, &d->header, sizeof(d->header));
  int64_t column = 0;
  for (int64_t i = 0; i < parts->count; i++) {
    const carnot_onednn_part* part = &parts->items[i];
    if (part->column != column) continue;
    CARNOT_TRY(carnot_onednn_pack(d->library, &part->shape, d->weights[column],
                                  weights->data + part->n0 * weights->column_stride,
                                  weights->row_stride, weights->column_stride,
                                  packed + d->weights_at[column]));
    column++;
  }
  return NULL;
}

carnot_status* carnot_onednn_prepare(const carnot_onednn_parts* parts,
                                     const carnot_onednn_weights* weights, carnot_prepared* out) {
  carnot_onednn_descriptions d;
  CARNOT_TRY(carnot_onednn_describe_parts(parts, &d));
  void* memory;
  carnot_status* status =
      carnot_arena_try(out->arena, d.bytes + CARNOT_ONEDNN_ALIGN, 1, "packed weights", &memory);
  const int saved = carnot_onednn_enter(d.library);
  if (!status) {
    memory = (void*)align_up((uintptr_t)memory);
    memset(memory, 0, d.bytes);
    status = pack(parts, weights, &d, memory);
    out->constants[0].packing = "oneDNN v1";
    out->constants[0].data = memory;
    out->constants[0].bytes = d.bytes;
  }
  carnot_onednn_leave(d.library, saved);
  carnot_onednn_forget(parts, &d);
  return status;
}

bool carnot_onednn_step_is_open(const carnot_step_view* step) {
  carnot_onednn_weights_header header;
  memcpy(&header, step->constants[0], sizeof(header));
  return header.is_open != 0;
}

carnot_status* carnot_onednn_validate(const carnot_step_view* step) {
  carnot_onednn_weights_header header;
  CARNOT_CHECK(step->constant_count > 0 && step->constant_bytes[0] >= sizeof(header), INVALID_MODEL,
               "a step of oneDNN has no packed weights");
  memcpy(&header, step->constants[0], sizeof(header));
  const int32_t* built = header.version;
  const carnot_onednn* library;
  CARNOT_TRY_AT(carnot_onednn_open(&library),
                "the engine calls oneDNN %d.%d.%d (build with --tacticSources=-ONEDNN for one that "
                "does not)",
                built[0], built[1], built[2]);
  CARNOT_CHECK(
      memcmp(built, library->version, sizeof(header.version)) == 0, VERSION_MISMATCH,
      "the engine calls oneDNN %d.%d.%d, this machine has %d.%d.%d: build the engine again, or "
      "with --tacticSources=-ONEDNN",
      built[0], built[1], built[2], library->version[0], library->version[1], library->version[2]);
  return NULL;
}
