// Structs back into the wire form, by the same tables.
#include <stdlib.h>
#include <string.h>

#include "import/pb/pb.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

// With |to| NULL bytes are counted only.
typedef struct writer {
  uint8_t* to;
  size_t size;
} writer;

static void put(writer* w, const void* bytes, size_t count) {
  if (w->to && count) memcpy(w->to + w->size, bytes, count);
  w->size += count;
}
static void put_varint(writer* w, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    put(w, &byte, 1);
    value >>= 7;
  } while (value);
}
static void put_tag(writer* w, const carnot_pb_field* field, unsigned wire) {
  put_varint(w, (uint64_t)field->number << 3 | wire);
}

static void put_number(writer* w, const carnot_pb_field* field, const void* item) {
  if (field->kind == CARNOT_PB_INT) {
    int64_t value;
    memcpy(&value, item, sizeof(value));
    put_varint(w, (uint64_t)value);
  } else {
    put(w, item, field->kind == CARNOT_PB_FLOAT ? 4 : 8);
  }
}

static void put_bytes(writer* w, const carnot_pb_field* field, carnot_strview bytes) {
  put_tag(w, field, WIRE_BYTES);
  put_varint(w, bytes.size);
  put(w, bytes.data, bytes.size);
}

static void put_message(writer* w, const carnot_pb_message* message, const void* from);

static void put_item(writer* w, const carnot_pb_field* field, const void* item) {
  static const unsigned kWires[] = {WIRE_VARINT, WIRE_FIXED32, WIRE_FIXED64};
  if (field->kind == CARNOT_PB_TEXT) {
    put_bytes(w, field, *(const carnot_strview*)item);
  } else if (field->kind == CARNOT_PB_MESSAGE) {
    writer inner = {.size = 0};
    put_message(&inner, field->message, item);
    put_tag(w, field, WIRE_BYTES);
    put_varint(w, inner.size);
    put_message(w, field->message, item);
  } else {
    put_tag(w, field, kWires[field->kind]);
    put_number(w, field, item);
  }
}

static void put_list(writer* w, const carnot_pb_field* field, const carnot_pb_any_list* list) {
  size_t item_bytes = carnot_pb_item_bytes(field);
  const char* items = list->items;
  if (field->kind > CARNOT_PB_DOUBLE) {
    for (size_t i = 0; i < list->count; i++) put_item(w, field, items + i * item_bytes);
    return;
  }
  writer inner = {.size = 0};
  for (size_t i = 0; i < list->count; i++) put_number(&inner, field, items + i * item_bytes);
  put_tag(w, field, WIRE_BYTES);
  put_varint(w, inner.size);
  for (size_t i = 0; i < list->count; i++) put_number(w, field, items + i * item_bytes);
}

static void put_message(writer* w, const carnot_pb_message* message, const void* from) {
  const uint64_t* present = from;
  for (size_t i = 0; i < message->field_count; i++) {
    const carnot_pb_field* field = &message->fields[i];
    const char* member = (const char*)from + field->offset;
    if (field->packed) {
      const carnot_strview* bytes = (const carnot_strview*)member;
      if (bytes->size) put_bytes(w, field, *bytes);
    } else if (field->repeated) {
      carnot_pb_any_list list;
      memcpy(&list, member, sizeof(list));
      if (list.count) put_list(w, field, &list);
    } else if (field->kind == CARNOT_PB_MESSAGE) {
      const void* nested;
      memcpy(&nested, member, sizeof(nested));
      if (nested) put_item(w, field, nested);
    } else if (present[i / 64] >> i % 64 & 1) {
      put_item(w, field, member);
    }
  }
}

carnot_status* carnot_pb_write_wire(const carnot_pb_message* message, const void* from,
                                    void** out_data, size_t* out_size) {
  writer w = {.size = 0};
  put_message(&w, message, from);
  *out_size = w.size;
  *out_data = malloc(w.size + 1);
  if (!*out_data) return CARNOT_NO_MEMORY(w.size, "a message");
  w = (writer){.to = *out_data};
  put_message(&w, message, from);
  return NULL;
}
