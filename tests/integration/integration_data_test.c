// Text, sequences and optionals through the public interface.
#include <string.h>

#include "carnot/data.h"
#include "net.h"

// y = x + z for text; s' = s with |item| at its end, and its length; "h, has" of an optional.
static carnot_engine* make_engine(void) {
  carnot_graph* g;
  net_ok(carnot_graph_create(&g));
  carnot_type text = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_STRING, .rank = 1};
  text.dims[0] = carnot_sym_of(2);
  carnot_type number = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 1};
  number.dims[0] = carnot_sym_of(3);
  carnot_type sequence = {.kind = CARNOT_VALUE_SEQUENCE, .element = &number};
  carnot_type optional = {.kind = CARNOT_VALUE_OPTIONAL, .element = &number};
  carnot_value* x = carnot_block_add_param(g->main, "x", &text);
  carnot_value* z = carnot_block_add_param(g->main, "z", &text);
  carnot_value* s = carnot_block_add_param(g->main, "s", &sequence);
  carnot_value* item = carnot_block_add_param(g->main, "item", &number);
  carnot_value* maybe = carnot_block_add_param(g->main, "maybe", &optional);
  const struct {
    carnot_op op;
    carnot_value* inputs[2];
    int count;
    const char* output;
  } kNodes[] = {{CARNOT_OP_STRING_CONCAT, {x, z}, 2, "y"},
                {CARNOT_OP_SEQUENCE_INSERT, {s, item}, 2, "longer"},
                {CARNOT_OP_SEQUENCE_LENGTH, {s}, 1, "length"},
                {CARNOT_OP_OPTIONAL_HAS_ELEMENT, {maybe}, 1, "has"}};
  for (size_t i = 0; i < sizeof(kNodes) / sizeof(kNodes[0]); i++) {
    carnot_node* node;
    net_ok(carnot_block_add_node(g->main, kNodes[i].op, kNodes[i].output, NULL, kNodes[i].inputs,
                                 kNodes[i].count, &kNodes[i].output, 1, &node));
    carnot_block_add_output(g->main, node->outputs[0]);
  }
  carnot_engine* engine = net_engine(g, NULL);
  carnot_graph_destroy(g);
  return engine;
}

static void fails(carnot_status* status, carnot_code code, const char* part) {
  assert_int_equal(carnot_status_code(status), code);
  if (!strstr(carnot_status_message(status), part))
    fail_msg("\"%s\" in \"%s\"", part, carnot_status_message(status));
  carnot_status_free(status);
}

static void data_of_every_kind(void** state) {
  (void)state;
  carnot_engine* engine = make_engine();
  carnot_context* context;
  net_ok(carnot_context_create(engine, NULL, &context));
  carnot_dims two = {1, {2}}, three = {1, {3}};
  const char *words[] = {"ab", "c"}, *ends[] = {"XY", "Zulu"};
  const size_t sizes[] = {2, 1};
  float numbers[] = {1, 2, 3}, more[] = {4, 5, 6};
  carnot_data *text, *x, *z, *first, *item, *s, *maybe;
  net_ok(carnot_data_create_text(&two, words, NULL, &x));
  net_ok(carnot_data_create_text(&two, ends, sizes, &z));
  net_ok(carnot_data_create_tensor(CARNOT_DTYPE_F32, &three, numbers, &first));
  net_ok(carnot_data_create_tensor(CARNOT_DTYPE_F32, &three, more, &item));
  net_ok(carnot_data_create_sequence((const carnot_data* const*)&first, 1, &s));
  net_ok(carnot_data_create_optional(NULL, &maybe));
  net_ok(carnot_context_set_input_value(context, "x", x));
  net_ok(carnot_context_set_input_value(context, "z", z));
  net_ok(carnot_context_set_input_value(context, "s", s));
  net_ok(carnot_context_set_input_value(context, "item", item));
  net_ok(carnot_context_set_input_value(context, "maybe", maybe));
  net_ok(carnot_context_run(context));

  const carnot_data* out;
  size_t size;
  net_ok(carnot_context_output_value(context, "y", &out));
  assert_int_equal(carnot_data_dtype(out), CARNOT_DTYPE_STRING);
  assert_int_equal(carnot_data_dims(out).d[0], 2);
  assert_memory_equal(carnot_data_text(out, 0, &size), "abXY", 4);
  assert_int_equal(size, 4);
  assert_memory_equal(carnot_data_text(out, 1, &size), "cZ", 2);
  assert_int_equal(size, 2);
  assert_null(carnot_data_text(out, 2, &size));
  assert_null(carnot_data_numbers(out));
  net_ok(carnot_context_output_value(context, "longer", &out));
  assert_int_equal(carnot_data_kind_of(out), CARNOT_DATA_SEQUENCE);
  assert_int_equal(carnot_data_item_count(out), 2);
  assert_memory_equal(carnot_data_numbers(carnot_data_item(out, 1)), more, sizeof(more));
  assert_null(carnot_data_item(out, 2));
  net_ok(carnot_context_output_value(context, "length", &out));
  assert_int_equal(*(const int64_t*)carnot_data_numbers(out), 1);
  net_ok(carnot_context_output_value(context, "has", &out));
  assert_int_equal(*(const uint8_t*)carnot_data_numbers(out), 0);

  fails(carnot_context_set_input_value(context, "s", x), CARNOT_INVALID_ARGUMENT,
        "is a tensor, must be a sequence");
  fails(carnot_context_set_input_value(context, "x", item), CARNOT_INVALID_ARGUMENT,
        "must be string");
  fails(carnot_data_create_tensor(CARNOT_DTYPE_STRING, &two, words, &text), CARNOT_INVALID_ARGUMENT,
        "no type of numbers");
  carnot_data* made[] = {x, z, first, item, s, maybe};
  for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) carnot_data_destroy(made[i]);
  carnot_context_destroy(context);
  carnot_engine_release(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(data_of_every_kind)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
