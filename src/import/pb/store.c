// Memory of the messages read: lists that grow by doubling, under an allowance relative to the size
// of the input.
#include <string.h>

#include "base/checked.h"
#include "import/pb/pb.h"

size_t carnot_pb_allowance(size_t size) {
  // A NodeProto of two bytes takes a struct of some 150; real files stay under ten times their
  // size.
  size_t bytes = 0;
  if (!carnot_mul_size(size, 64, &bytes) || !carnot_add_size(bytes, (size_t)1 << 20, &bytes))
    return SIZE_MAX;
  return bytes;
}

size_t carnot_pb_item_bytes(const carnot_pb_field* field) {
  switch (field->kind) {
    case CARNOT_PB_INT: return sizeof(int64_t);
    case CARNOT_PB_FLOAT: return sizeof(float);
    case CARNOT_PB_DOUBLE: return sizeof(double);
    case CARNOT_PB_TEXT: return sizeof(carnot_strview);
    case CARNOT_PB_MESSAGE: return field->message->size;
  }
  return 0;
}

carnot_status* carnot_pb_alloc(carnot_pb_store* store, size_t count, size_t size,
                               void** out_memory) {
  size_t bytes = 0;
  *out_memory = NULL;
  CARNOT_CHECK(carnot_mul_size(count, size, &bytes) && bytes <= store->left_bytes, OUT_OF_RANGE,
               "the message unfolds to more memory than a file of its size may take");
  store->left_bytes -= bytes;
  return carnot_arena_try(store->arena, count, size, "a protobuf message", out_memory);
}

static size_t round_up_to_power_of_two(size_t n) {
  size_t p = 1;
  while (p < n) p *= 2;
  return p;
}

carnot_status* carnot_pb_extend(carnot_pb_store* store, const carnot_pb_field* field, void* message,
                                size_t extra, void** out_items) {
  carnot_pb_any_list* list = (carnot_pb_any_list*)((char*)message + field->offset);
  size_t item_bytes = carnot_pb_item_bytes(field);
  size_t count = 0;
  CARNOT_CHECK(carnot_add_size(list->count, extra, &count) && count <= SIZE_MAX / 4, OUT_OF_RANGE,
               "list %s is too long", field->name);
  // The capacity is a function of the count: the power of two above it.
  size_t capacity = list->count ? round_up_to_power_of_two(list->count) : 0;
  if (count > capacity || list->count == 0) {
    void* items = NULL;
    CARNOT_TRY(carnot_pb_alloc(store, round_up_to_power_of_two(count), item_bytes, &items));
    if (list->count) memcpy(items, list->items, list->count * item_bytes);
    list->items = items;
  }
  *out_items = (char*)list->items + list->count * item_bytes;
  list->count = count;
  return NULL;
}

// Whether |bytes| lie in the input, so that there is no room behind them.
static bool is_view(const carnot_pb_store* store, carnot_strview bytes) {
  const uintptr_t start = (uintptr_t)store->input.data, at = (uintptr_t)bytes.data;
  return bytes.size && at >= start && at - start < store->input.size;
}

carnot_status* carnot_pb_extend_packed(carnot_pb_store* store, const carnot_pb_field* field,
                                       void* message, size_t extra, void** out_items) {
  carnot_strview* list = (carnot_strview*)((char*)message + field->offset);
  size_t size = 0, more = 0;
  CARNOT_CHECK(carnot_mul_size(extra, carnot_pb_item_bytes(field), &more) &&
                   carnot_add_size(list->size, more, &size) && size <= SIZE_MAX / 4,
               OUT_OF_RANGE, "list %s is too long", field->name);
  size_t capacity = list->size && !is_view(store, *list) ? round_up_to_power_of_two(list->size) : 0;
  if (size > capacity) {
    void* items = NULL;
    CARNOT_TRY(carnot_pb_alloc(store, round_up_to_power_of_two(size), 1, &items));
    if (list->size) memcpy(items, list->data, list->size);
    list->data = items;
  }
  *out_items = (char*)(uintptr_t)list->data + list->size;
  list->size = size;
  return NULL;
}

carnot_status* carnot_pb_place(carnot_pb_store* store, const carnot_pb_message* message,
                               const carnot_pb_field* field, void* out_message, void** out_place) {
  carnot_pb_mark(message, field, out_message);
  if (field->packed) return carnot_pb_extend_packed(store, field, out_message, 1, out_place);
  if (field->repeated) return carnot_pb_extend(store, field, out_message, 1, out_place);
  *out_place = (char*)out_message + field->offset;
  if (field->kind != CARNOT_PB_MESSAGE) return NULL;
  void* nested = *(void**)*out_place;
  if (!nested) CARNOT_TRY(carnot_pb_alloc(store, 1, field->message->size, &nested));
  *(void**)*out_place = nested;
  *out_place = nested;
  return NULL;
}
