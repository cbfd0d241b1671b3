// Protocol Buffers messages, read by tables into C structs: the wire form and the text form.
//
// A message is a C struct whose first member is `uint64_t present` (bit i: field i of the table was
// there), or `uint64_t present[n]` where the table has more than 64 fields; every other member of
// the table has the C type of its kind, and repeated ones are CARNOT_PB_LIST of it. Strings and
// bytes are views into the memory read, so that memory must outlive the struct; lists and nested
// messages are in the arena.
//   INT int64_t (every varint and fixed integer) · FLOAT float · DOUBLE double · TEXT
//   carnot_strview MESSAGE pointer to the nested struct (NULL when absent); in a list the structs
//   themselves
// A PACKED field is a list of FLOAT or DOUBLE that stays the bytes of the file: its member is a
// carnot_strview of little-endian numbers, perhaps not aligned.
// Unknown fields are skipped, but by closed messages. A singular field that comes twice keeps its
// last value, a message the fields of both. Maps are repeated messages with key 1 and value 2.
// Source: the Protocol Buffers encoding and text format specifications.
#ifndef CARNOT_IMPORT_PB_PB_H_
#define CARNOT_IMPORT_PB_PB_H_

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/strview.h"

// Messages inside messages deeper than this are refused.
#define CARNOT_PB_MAX_DEPTH 64

typedef enum carnot_pb_kind {
  CARNOT_PB_INT,
  CARNOT_PB_FLOAT,
  CARNOT_PB_DOUBLE,
  CARNOT_PB_TEXT,
  CARNOT_PB_MESSAGE,
} carnot_pb_kind;

// A value of an enumeration, for the text form; a NULL name ends the list.
typedef struct carnot_pb_name {
  const char* name;
  int64_t value;
} carnot_pb_name;

struct carnot_pb_message;

typedef struct carnot_pb_field {
  uint32_t number;
  carnot_pb_kind kind;
  bool repeated;
  bool packed;    // a list of numbers kept as bytes
  size_t offset;  // of the member in the struct
  const char* name;
  const struct carnot_pb_message* message;  // of kind MESSAGE
  const carnot_pb_name* names;              // of an enumeration; NULL: a number
} carnot_pb_field;

typedef struct carnot_pb_message {
  const char* name;
  size_t size;  // of the struct
  const carnot_pb_field* fields;
  size_t field_count;
  // Of a closed message, whose unknown fields are errors of the text form: the names of fields that
  // exist and are skipped, separated by spaces. NULL: unknown fields are skipped.
  const char* skipped;
  // The member, a carnot_pb_unknown_list, that keeps the fields which the text form has and the
  // table lacks; NULL: they are dropped.
  const carnot_pb_field* unknown;
} carnot_pb_message;

#define CARNOT_PB_LIST(type) \
  struct {                   \
    type* items;             \
    size_t count;            \
  }

// The list of any repeated field, whatever its items.
typedef CARNOT_PB_LIST(void) carnot_pb_any_list;

// A field that the table lacks, as the text has it: `alpha: 0.5` or `my_param { alpha: 0.5 }`.
typedef struct carnot_pb_unknown {
  uint64_t present;
  carnot_strview name, value;
} carnot_pb_unknown;
typedef CARNOT_PB_LIST(carnot_pb_unknown) carnot_pb_unknown_list;
extern const carnot_pb_message carnot_pb_unknown_message;

// One row of a message's table.
#define CARNOT_PB_ONE(struct_type, member, number, KIND) \
  { number, CARNOT_PB_##KIND, false, false, offsetof(struct_type, member), #member, NULL, NULL }
#define CARNOT_PB_MANY(struct_type, member, number, KIND) \
  { number, CARNOT_PB_##KIND, true, false, offsetof(struct_type, member), #member, NULL, NULL }
#define CARNOT_PB_PACKED(struct_type, member, number, KIND) \
  { number, CARNOT_PB_##KIND, true, true, offsetof(struct_type, member), #member, NULL, NULL }
#define CARNOT_PB_ENUM(struct_type, member, number, names) \
  { number, CARNOT_PB_INT, false, false, offsetof(struct_type, member), #member, NULL, names }
#define CARNOT_PB_SUB(struct_type, member, number, message) \
  { number, CARNOT_PB_MESSAGE, false, false, offsetof(struct_type, member), #member, message, NULL }
#define CARNOT_PB_SUBS(struct_type, member, number, message) \
  { number, CARNOT_PB_MESSAGE, true, false, offsetof(struct_type, member), #member, message, NULL }

// Reads the wire form at |data| into |out_message| (of |message|->size bytes). INVALID_MODEL with
// byte offset and field where the bytes break the format; OUT_OF_RANGE when a limit is passed.
// Borrows |data|.
carnot_status* carnot_pb_read_wire(const carnot_pb_message* message, const void* data, size_t size,
                                   carnot_arena* arena, void* out_message) CARNOT_MUST_USE;

// The same for the text form (prototxt); errors tell line and column.
carnot_status* carnot_pb_read_text(const carnot_pb_message* message, const char* text, size_t size,
                                   carnot_arena* arena, void* out_message) CARNOT_MUST_USE;

// The wire form of |from|, to be freed: fields that are present, in the order of the table, lists
// of numbers packed.
carnot_status* carnot_pb_write_wire(const carnot_pb_message* message, const void* from,
                                    void** out_data, size_t* out_size) CARNOT_MUST_USE;

// ---- shared by the two readers ----

typedef struct carnot_pb_store {
  carnot_arena* arena;
  size_t left_bytes;     // what may still be allocated: a bound relative to the size of the input
  carnot_strview input;  // what a view may point into
} carnot_pb_store;

// The allowance for an input of |size| bytes.
size_t carnot_pb_allowance(size_t size);
// The bytes an item of |field| takes in a list.
size_t carnot_pb_item_bytes(const carnot_pb_field* field);
carnot_status* carnot_pb_alloc(carnot_pb_store* store, size_t count, size_t size,
                               void** out_memory) CARNOT_MUST_USE;
// Makes room for |extra| more items and counts them; *out_items is the first new one, zeroed.
carnot_status* carnot_pb_extend(carnot_pb_store* store, const carnot_pb_field* field, void* message,
                                size_t extra, void** out_items) CARNOT_MUST_USE;
// The same for a PACKED field.
carnot_status* carnot_pb_extend_packed(carnot_pb_store* store, const carnot_pb_field* field,
                                       void* message, size_t extra,
                                       void** out_items) CARNOT_MUST_USE;
// Notes that |field| is there.
static inline void carnot_pb_mark(const carnot_pb_message* message, const carnot_pb_field* field,
                                  void* out_message) {
  const size_t i = (size_t)(field - message->fields);
  ((uint64_t*)out_message)[i / 64] |= (uint64_t)1 << i % 64;
}
// Where the next value of |field| goes: the member, a new item of its list, or the nested struct,
// which is made when the field comes for the first time.
carnot_status* carnot_pb_place(carnot_pb_store* store, const carnot_pb_message* message,
                               const carnot_pb_field* field, void* out_message,
                               void** out_place) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_PB_PB_H_
