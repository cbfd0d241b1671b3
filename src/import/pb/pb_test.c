// clang-format off: cmocka.h needs the includes before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
// clang-format on

#include <stdlib.h>

#include "import/pb/pb.h"

typedef struct tree {
  uint64_t present;
  int64_t number;
  float ratio;
  carnot_strview name;
  CARNOT_PB_LIST(int64_t) ints;
  CARNOT_PB_LIST(double) doubles;
  CARNOT_PB_LIST(struct tree) children;
  struct tree* only;
  carnot_strview packed;
} tree;

extern const carnot_pb_message kTree;
static const carnot_pb_name kNumbers[] = {{"ONE", 1}, {"TWO", 2}, {NULL, 0}};
static const carnot_pb_field kTreeFields[] = {
    CARNOT_PB_ENUM(tree, number, 1, kNumbers), CARNOT_PB_ONE(tree, ratio, 2, FLOAT),
    CARNOT_PB_ONE(tree, name, 3, TEXT),        CARNOT_PB_MANY(tree, ints, 4, INT),
    CARNOT_PB_MANY(tree, doubles, 5, DOUBLE),  CARNOT_PB_SUBS(tree, children, 6, &kTree),
    CARNOT_PB_SUB(tree, only, 7, &kTree),      CARNOT_PB_PACKED(tree, packed, 8, FLOAT),
};
const carnot_pb_message kTree = {"Tree", sizeof(tree), kTreeFields, 8, NULL, NULL};

static carnot_status* read_wire(carnot_arena* arena, const void* bytes, size_t size, tree* out) {
  return carnot_pb_read_wire(&kTree, bytes, size, arena, out);
}

static void wire_reads_every_kind(void** state) {
  (void)state;
  static const uint8_t kBytes[] = {0x08, 0x96, 0x01, 0x15, 0, 0,    0x80, 0x3f, 0x1a, 2,
                                   'h',  'i',  0x22, 3,    1, 0xac, 0x02, 0x20, 7,    0x32,
                                   2,    8,    5,    0x3a, 2, 8,    6,    0x7a, 1,    'x'};
  carnot_arena arena = {0};
  tree t;
  assert_null(read_wire(&arena, NULL, 0, &t));
  assert_false(t.present);
  assert_null(read_wire(&arena, kBytes, sizeof(kBytes), &t));
  assert_int_equal(t.number, 150);
  assert_true(t.ratio == 1.0f);
  assert_true(carnot_view_is(t.name, "hi"));
  assert_int_equal(t.ints.count, 3);
  assert_int_equal(t.ints.items[1], 300);
  assert_int_equal(t.ints.items[2], 7);
  assert_int_equal(t.children.count, 1);
  assert_int_equal(t.children.items[0].number, 5);
  assert_int_equal(t.only->number, 6);
  assert_int_equal(t.present, 0x6f);
  carnot_arena_deinit(&arena);
}

static void a_message_that_comes_twice_has_the_fields_of_both(void** state) {
  (void)state;
  static const uint8_t kBytes[] = {0x3a, 6, 8, 6, 0x1a, 2, 'h', 'i', 0x3a, 4, 8, 7, 0x20, 9};
  carnot_arena arena = {0};
  tree t;
  assert_null(read_wire(&arena, kBytes, sizeof(kBytes), &t));
  assert_int_equal(t.only->number, 7);
  assert_true(carnot_view_is(t.only->name, "hi"));
  assert_int_equal(t.only->ints.count, 1);
  assert_int_equal(t.only->present, 0xd);
  carnot_arena_deinit(&arena);
}

static void expect_packed(const tree* t, const float* values, size_t count) {
  assert_true(t->present & 1u << 7);
  assert_int_equal(t->packed.size, count * sizeof(float));
  assert_memory_equal(t->packed.data, values, count * sizeof(float));
}

static void packed_numbers_are_a_view(void** state) {
  (void)state;
  static const uint8_t kOne[] = {0x42, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
  // A second list, then a number by itself: the list moves to the arena.
  static const uint8_t kThree[] = {0x42, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x42,
                                   4,    0, 0, 0, 0,    0x45, 0, 0, 0, 0x40};
  static const float kValues[] = {1, 2, 0, 2};
  carnot_arena arena = {0};
  tree t;
  assert_null(read_wire(&arena, kOne, sizeof(kOne), &t));
  expect_packed(&t, kValues, 2);
  assert_ptr_equal(t.packed.data, kOne + 2);
  assert_null(read_wire(&arena, kThree, sizeof(kThree), &t));
  expect_packed(&t, kValues, 4);
  void* back;
  size_t size;
  assert_null(carnot_pb_write_wire(&kTree, &t, &back, &size));
  assert_null(read_wire(&arena, back, size, &t));
  expect_packed(&t, kValues, 4);
  free(back);
  static const char kText[] = "packed: [1, 2] packed: 0 packed: 2";
  assert_null(carnot_pb_read_text(&kTree, kText, strlen(kText), &arena, &t));
  expect_packed(&t, kValues, 4);
  carnot_arena_deinit(&arena);
}

enum { kWideFields = 130 };
typedef struct wide {
  uint64_t present[3];
  int64_t numbers[kWideFields];
} wide;

static void a_message_may_have_many_fields(void** state) {
  (void)state;
  carnot_pb_field fields[kWideFields];
  for (uint32_t i = 0; i < kWideFields; i++)
    fields[i] = (carnot_pb_field){.number = i + 1,
                                  .kind = CARNOT_PB_INT,
                                  .offset = offsetof(wide, numbers) + i * sizeof(int64_t),
                                  .name = "number"};
  const carnot_pb_message message = {"Wide", sizeof(wide), fields, kWideFields, NULL, NULL};
  // Fields 1, 64, 65 and 130.
  static const uint8_t kBytes[] = {0x08, 1, 0x80, 0x04, 2, 0x88, 0x04, 3, 0x90, 0x08, 4};
  carnot_arena arena = {0};
  wide w;
  assert_null(carnot_pb_read_wire(&message, kBytes, sizeof(kBytes), &arena, &w));
  assert_int_equal(w.present[0], UINT64_C(1) << 63 | 1);
  assert_int_equal(w.present[1], 1);
  assert_int_equal(w.present[2], 2);
  assert_int_equal(w.numbers[0], 1);
  assert_int_equal(w.numbers[63], 2);
  assert_int_equal(w.numbers[64], 3);
  assert_int_equal(w.numbers[129], 4);
  void* back;
  size_t size;
  assert_null(carnot_pb_write_wire(&message, &w, &back, &size));
  assert_int_equal(size, sizeof(kBytes));
  assert_memory_equal(back, kBytes, size);
  free(back);
  carnot_arena_deinit(&arena);
}

// The code and a part of the message.
static void expect_error(const void* bytes, size_t size, carnot_code code, const char* part) {
  carnot_arena arena = {0};
  tree t;
  carnot_status* status = read_wire(&arena, bytes, size, &t);
  assert_int_equal(carnot_status_code(status), code);
  if (!strstr(carnot_status_message(status), part))
    fail_msg("\"%s\" in \"%s\"", part, carnot_status_message(status));
  carnot_status_free(status);
  carnot_arena_deinit(&arena);
}

static void wire_refuses_broken_bytes(void** state) {
  (void)state;
  expect_error("\x1a\x05hi", 4, CARNOT_INVALID_MODEL, "Tree.name: byte 1");
  expect_error("\x08\xff", 2, CARNOT_INVALID_MODEL, "ends inside an integer");
  expect_error("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, CARNOT_INVALID_MODEL,
               "ten bytes");
  expect_error("\x15\x00\x00", 3, CARNOT_INVALID_MODEL, "4 bytes wanted");
  expect_error("\x2a\x03xyz", 5, CARNOT_INVALID_MODEL, "8-byte numbers");
  expect_error("\x42\x03xyz", 5, CARNOT_INVALID_MODEL, "4-byte numbers");
  expect_error("\x18\x01", 2, CARNOT_INVALID_MODEL, "where text belongs");
  expect_error("\x00\x00", 2, CARNOT_INVALID_MODEL, "field number 0");
  expect_error("\x7f\x00", 2, CARNOT_INVALID_MODEL, "wire type 7");
  expect_error("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, CARNOT_INVALID_MODEL,
               "are left");
}

static void wire_bounds_depth(void** state) {
  (void)state;
  uint8_t bytes[400];
  size_t size = sizeof(bytes);
  // A message in a message …, each two bytes longer than what it holds.
  for (size_t at = 0; at + 3 < size; at += 3) {
    size_t rest = size - at - 3;
    bytes[at] = 0x3a;
    bytes[at + 1] = (uint8_t)(0x80 | (rest & 0x7f));
    bytes[at + 2] = (uint8_t)(rest >> 7);
  }
  bytes[size - 1] = 0;
  expect_error(
      bytes, size, CARNOT_OUT_OF_RANGE,
      "inside 63 messages: Tree.only: Tree.only: byte 195: messages nested deeper than 64");
}

static void wire_shows_all_of_a_short_path(void** state) {
  (void)state;
  // only { only { only { an unknown wire type } } }
  expect_error("\x3a\x05\x3a\x03\x3a\x01\x0f", 7, CARNOT_INVALID_MODEL,
               "Tree.only: Tree.only: Tree.only: ");
}

static void text_reads_every_kind(void** state) {
  (void)state;
  static const char kText[] =
      "# a comment\nnumber: TWO ratio: -1.5e1f name: \"a\\tb\" 'c'\nints: [1, -2, 0x10] ints: 4\n"
      "doubles: inf children { number: 5 } children: < name: 'x' >, only { other: { a: [1, {}] } "
      "number: 6; }";
  carnot_arena arena = {0};
  tree t;
  carnot_status* status = carnot_pb_read_text(&kTree, kText, strlen(kText), &arena, &t);
  if (status) fail_msg("%s", carnot_status_message(status));
  assert_int_equal(t.number, 2);
  assert_true(t.ratio == -15.0f);
  assert_true(carnot_view_is(t.name, "a\tbc"));
  assert_int_equal(t.ints.count, 4);
  assert_int_equal(t.ints.items[1], -2);
  assert_int_equal(t.ints.items[2], 16);
  assert_true(t.doubles.items[0] > 1e300);
  assert_int_equal(t.children.count, 2);
  assert_true(carnot_view_is(t.children.items[1].name, "x"));
  assert_int_equal(t.only->number, 6);
  carnot_arena_deinit(&arena);
}

static void wire_writes_what_it_reads(void** state) {
  (void)state;
  static const char kText[] =
      "number: TWO ratio: -15 name: 'abc' ints: [1, -2, 300] doubles: [inf, 0.5] "
      "children { number: 5 } children: < name: '' >, only { other: { a: [1, {}] } number: 6; }";
  carnot_arena arena = {0};
  tree t, again;
  void *bytes, *same;
  size_t size, same_size;
  assert_null(carnot_pb_read_text(&kTree, kText, strlen(kText), &arena, &t));
  assert_null(carnot_pb_write_wire(&kTree, &t, &bytes, &size));
  assert_null(carnot_pb_read_wire(&kTree, bytes, size, &arena, &again));
  assert_int_equal(again.present, t.present);
  assert_int_equal(again.ints.items[1], -2);
  assert_int_equal(again.ints.items[2], 300);
  assert_true(again.doubles.items[1] == 0.5 && again.ratio == -15.0f);
  assert_true(carnot_view_is(again.name, "abc"));
  assert_int_equal(again.children.items[0].number, 5);
  assert_int_equal(again.only->number, 6);
  assert_null(carnot_pb_write_wire(&kTree, &again, &same, &same_size));
  assert_int_equal(same_size, size);
  assert_memory_equal(same, bytes, size);
  free(bytes);
  free(same);
  carnot_arena_deinit(&arena);
}

static void text_steps_over_fields_that_no_table_has(void** state) {
  (void)state;
  static const char kText[] =
      "other: 1e-3 other: -2.5E+4 other: .5f other { a: 1e-3 b < c: [1e-2, 0x1F] > }\n"
      "other: [ { a: \"}\" } ], other: A_WORD; number: True";
  carnot_arena arena = {0};
  tree t;
  assert_null(carnot_pb_read_text(&kTree, kText, strlen(kText), &arena, &t));
  assert_int_equal(t.present, 1);
  assert_int_equal(t.number, 1);
  carnot_arena_deinit(&arena);
}

static void text_tells_line_and_column(void** state) {
  (void)state;
  static const char* const kBad[] = {
      "number: 1\nratio: x", "name: \"open", "children {", "number 1", "ints: [1", "ratio: 1 }"};
  for (size_t i = 0; i < sizeof(kBad) / sizeof(kBad[0]); i++) {
    carnot_arena arena = {0};
    tree t;
    carnot_status* status = carnot_pb_read_text(&kTree, kBad[i], strlen(kBad[i]), &arena, &t);
    assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
    assert_non_null(strstr(carnot_status_message(status), "line "));
    carnot_status_free(status);
    carnot_arena_deinit(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_that_comes_twice_has_the_fields_of_both),
      cmocka_unit_test(a_message_may_have_many_fields),
      cmocka_unit_test(packed_numbers_are_a_view),
      cmocka_unit_test(wire_reads_every_kind),
      cmocka_unit_test(wire_refuses_broken_bytes),
      cmocka_unit_test(wire_writes_what_it_reads),
      cmocka_unit_test(wire_bounds_depth),
      cmocka_unit_test(wire_shows_all_of_a_short_path),
      cmocka_unit_test(text_reads_every_kind),
      cmocka_unit_test(text_steps_over_fields_that_no_table_has),
      cmocka_unit_test(text_tells_line_and_column),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
