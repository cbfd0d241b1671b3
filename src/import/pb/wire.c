// The wire form of protobuf: tag, value; tag, value; …
#include <string.h>

#include "import/pb/pb.h"

enum {
  WIRE_VARINT = 0,
  WIRE_FIXED64 = 1,
  WIRE_BYTES = 2,
  WIRE_GROUP = 3,
  WIRE_END_GROUP = 4,
  WIRE_FIXED32 = 5
};

typedef struct reader {
  const uint8_t* base;  // of the whole input, for offsets in messages
  const uint8_t* at;
  const uint8_t* end;  // of the message being read
  carnot_pb_store* store;
  int* failed_depth;  // of the message that an error was found in; -1: none yet
} reader;

static size_t offset(const reader* r) { return (size_t)(r->at - r->base); }

static carnot_status* read_varint(reader* r, uint64_t* out_value) {
  uint64_t value = 0;
  size_t start = offset(r);
  for (int shift = 0; shift < 70; shift += 7) {
    CARNOT_CHECK(r->at < r->end, INVALID_MODEL, "byte %zu: the file ends inside an integer", start);
    uint8_t byte = *r->at++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out_value = value;
      return NULL;
    }
  }
  return CARNOT_ERROR(INVALID_MODEL, "byte %zu: an integer of more than ten bytes", start);
}

static carnot_status* read_fixed(reader* r, size_t bytes, uint64_t* out_bits) {
  size_t left = (size_t)(r->end - r->at);
  CARNOT_CHECK(left >= bytes, INVALID_MODEL, "byte %zu: %zu bytes wanted, %zu left", offset(r),
               bytes, left);
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes; i++) bits |= (uint64_t)r->at[i] << (8 * i);
  r->at += bytes;
  *out_bits = bits;
  return NULL;
}

static carnot_status* read_length(reader* r, size_t* out_length) {
  uint64_t length = 0;
  size_t start = offset(r);
  CARNOT_TRY(read_varint(r, &length));
  size_t left = (size_t)(r->end - r->at);
  CARNOT_CHECK(length <= left, INVALID_MODEL, "byte %zu: a length of %llu bytes where %zu are left",
               start, (unsigned long long)length, left);
  *out_length = (size_t)length;
  return NULL;
}

// Skips a value that no table knows. Groups are obsolete, but old writers may have left some.
static carnot_status* skip(reader* r, uint32_t number, unsigned wire, int depth) {
  uint64_t bits = 0;
  size_t length = 0;
  switch (wire) {
    case WIRE_VARINT: return read_varint(r, &bits);
    case WIRE_FIXED64: return read_fixed(r, 8, &bits);
    case WIRE_FIXED32: return read_fixed(r, 4, &bits);
    case WIRE_BYTES:
      CARNOT_TRY(read_length(r, &length));
      r->at += length;
      return NULL;
    case WIRE_GROUP: {
      CARNOT_CHECK(depth < CARNOT_PB_MAX_DEPTH, OUT_OF_RANGE,
                   "byte %zu: groups nested deeper than %d", offset(r), CARNOT_PB_MAX_DEPTH);
      for (;;) {
        CARNOT_TRY(read_varint(r, &bits));
        if ((bits & 7) == WIRE_END_GROUP) {
          CARNOT_CHECK(bits >> 3 == number, INVALID_MODEL,
                       "byte %zu: a group ends that was not open", offset(r));
          return NULL;
        }
        CARNOT_TRY(skip(r, (uint32_t)(bits >> 3), (unsigned)(bits & 7), depth + 1));
      }
    }
    default:
      return CARNOT_ERROR(INVALID_MODEL, "byte %zu: wire type %u does not exist", offset(r), wire);
  }
}

// Puts the |bits| of a number, as they stood in the file, where the field wants them.
static carnot_status* put_number(const carnot_pb_field* field, unsigned wire, uint64_t bits,
                                 size_t where, void* place) {
  if (field->kind == CARNOT_PB_INT) {
    int64_t value = wire == WIRE_FIXED32 ? (int32_t)bits : (int64_t)bits;
    memcpy(place, &value, sizeof(value));
    return NULL;
  }
  unsigned want = field->kind == CARNOT_PB_FLOAT ? WIRE_FIXED32 : WIRE_FIXED64;
  CARNOT_CHECK(wire == want, INVALID_MODEL, "byte %zu: wire type %u where %u belongs", where, wire,
               want);
  uint32_t low = (uint32_t)bits;
  if (field->kind == CARNOT_PB_FLOAT)
    memcpy(place, &low, sizeof(low));
  else
    memcpy(place, &bits, sizeof(bits));
  return NULL;
}

// |length| bytes of numbers that stay bytes: a view where they are the first of the list.
static carnot_status* view_packed(reader* r, const carnot_pb_message* message,
                                  const carnot_pb_field* field, size_t length, void* out_message) {
  carnot_strview* list = (carnot_strview*)((char*)out_message + field->offset);
  carnot_pb_mark(message, field, out_message);
  const uint8_t* bytes = r->at;
  r->at += length;
  if (list->size == 0) {
    *list = (carnot_strview){(const char*)bytes, length};
    return NULL;
  }
  void* items = NULL;
  CARNOT_TRY(carnot_pb_extend_packed(r->store, field, out_message,
                                     length / carnot_pb_item_bytes(field), &items));
  memcpy(items, bytes, length);
  return NULL;
}

static carnot_status* read_packed(reader* r, const carnot_pb_message* message,
                                  const carnot_pb_field* field, void* out_message) {
  size_t length = 0, start = offset(r);
  CARNOT_TRY(read_length(r, &length));
  if (length == 0) return NULL;
  size_t item_bytes = carnot_pb_item_bytes(field), count = 0;
  if (field->kind == CARNOT_PB_INT) {
    for (size_t i = 0; i < length; i++) count += !(r->at[i] & 0x80);
  } else {
    CARNOT_CHECK(length % item_bytes == 0, INVALID_MODEL,
                 "byte %zu: %zu bytes are no list of %zu-byte numbers", start, length, item_bytes);
    count = length / item_bytes;
    if (field->packed) return view_packed(r, message, field, length, out_message);
  }
  CARNOT_CHECK(count > 0, INVALID_MODEL, "byte %zu: a list ends inside an integer", start);
  void* items = NULL;
  CARNOT_TRY(carnot_pb_extend(r->store, field, out_message, count, &items));
  carnot_pb_mark(message, field, out_message);
  reader inner = {r->base, r->at, r->at + length, r->store, r->failed_depth};
  r->at += length;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = 0;
    if (field->kind == CARNOT_PB_INT)
      CARNOT_TRY(read_varint(&inner, &bits));
    else
      CARNOT_TRY(read_fixed(&inner, item_bytes, &bits));
    unsigned wire = field->kind == CARNOT_PB_FLOAT ? WIRE_FIXED32 : WIRE_FIXED64;
    CARNOT_TRY(put_number(field, wire, bits, start, (char*)items + i * item_bytes));
  }
  CARNOT_CHECK(inner.at == inner.end, INVALID_MODEL, "byte %zu: a list ends inside an integer",
               start);
  return NULL;
}

static carnot_status* read_message(reader* r, const carnot_pb_message* message, int depth,
                                   void* out_message);

static carnot_status* read_field(reader* r, const carnot_pb_message* message,
                                 const carnot_pb_field* field, unsigned wire, int depth,
                                 void* out_message) {
  bool number = field->kind <= CARNOT_PB_DOUBLE;
  size_t start = offset(r);
  if (number && wire == WIRE_BYTES && field->repeated)
    return read_packed(r, message, field, out_message);
  void* place = NULL;
  if (number) {
    uint64_t bits = 0;
    if (wire == WIRE_VARINT)
      CARNOT_TRY(read_varint(r, &bits));
    else if (wire == WIRE_FIXED64 || wire == WIRE_FIXED32)
      CARNOT_TRY(read_fixed(r, wire == WIRE_FIXED64 ? 8 : 4, &bits));
    else
      return CARNOT_ERROR(INVALID_MODEL, "byte %zu: wire type %u where a number belongs", start,
                          wire);
    CARNOT_TRY(carnot_pb_place(r->store, message, field, out_message, &place));
    return put_number(field, wire, bits, start, place);
  }
  CARNOT_CHECK(wire == WIRE_BYTES, INVALID_MODEL, "byte %zu: wire type %u where %s belongs", start,
               wire, field->kind == CARNOT_PB_TEXT ? "text" : "a message");
  size_t length = 0;
  CARNOT_TRY(read_length(r, &length));
  CARNOT_TRY(carnot_pb_place(r->store, message, field, out_message, &place));
  reader inner = {r->base, r->at, r->at + length, r->store, r->failed_depth};
  r->at += length;
  if (field->kind == CARNOT_PB_MESSAGE)
    return read_message(&inner, field->message, depth + 1, place);
  carnot_strview text = {(const char*)inner.at, length};
  memcpy(place, &text, sizeof(text));
  return NULL;
}

enum { kShownDepth = 8 };

// Adds the field that an error is in. Of a deep nesting the two innermost fields are shown; the
// others are counted.
static carnot_status* say_field(const reader* r, carnot_status* status,
                                const carnot_pb_message* message, const carnot_pb_field* field,
                                int depth) {
  if (!status) return NULL;
  if (*r->failed_depth < 0) *r->failed_depth = depth;
  int deepest = *r->failed_depth;
  if (deepest <= kShownDepth || deepest - depth < 2)
    return carnot_status_annotate(status, "%s.%s", message->name, field->name);
  return depth ? status : carnot_status_annotate(status, "inside %d messages", deepest - 1);
}

static carnot_status* read_message(reader* r, const carnot_pb_message* message, int depth,
                                   void* out_message) {
  CARNOT_CHECK(depth <= CARNOT_PB_MAX_DEPTH, OUT_OF_RANGE,
               "byte %zu: messages nested deeper than %d", offset(r), CARNOT_PB_MAX_DEPTH);
  const carnot_pb_field* last = message->fields;
  while (r->at < r->end) {
    uint64_t tag = 0;
    size_t start = offset(r);
    CARNOT_TRY_AT(read_varint(r, &tag), "%s", message->name);
    uint64_t number = tag >> 3;
    CARNOT_CHECK(number > 0 && number < (1u << 29), INVALID_MODEL,
                 "%s: byte %zu: field number %llu does not exist", message->name, start,
                 (unsigned long long)number);
    const carnot_pb_field* field = last->number == number ? last : NULL;
    for (size_t i = 0; !field && i < message->field_count; i++) {
      if (message->fields[i].number == number) field = &message->fields[i];
    }
    if (!field) {
      CARNOT_TRY_AT(skip(r, (uint32_t)number, (unsigned)(tag & 7), 0), "%s: unknown field %llu",
                    message->name, (unsigned long long)number);
      continue;
    }
    last = field;
    CARNOT_TRY(say_field(r, read_field(r, message, field, (unsigned)(tag & 7), depth, out_message),
                         message, field, depth));
  }
  return NULL;
}

carnot_status* carnot_pb_read_wire(const carnot_pb_message* message, const void* data, size_t size,
                                   carnot_arena* arena, void* out_message) {
  carnot_pb_store store = {arena, carnot_pb_allowance(size), {data, size}};
  memset(out_message, 0, message->size);
  if (size == 0) return NULL;  // |data| may be NULL
  int failed_depth = -1;
  reader r = {data, data, (const uint8_t*)data + size, &store, &failed_depth};
  return read_message(&r, message, 0, out_message);
}
