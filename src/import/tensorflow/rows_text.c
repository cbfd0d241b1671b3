// Text. Source: tensorflow/core/ops/string_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* text_constant(tf_import* n, carnot_strview text) {
  carnot_strview* kept = CARNOT_NEW_ARRAY(n->node.arena, carnot_strview, 1);
  if (!import_has_memory(&n->node)) return NULL;
  kept[0] = (carnot_strview){carnot_arena_text(n->node.arena, text.data, text.size), text.size};
  const carnot_tensor tensor = {.dtype = CARNOT_DTYPE_STRING, .data = kept};
  return import_tensor_constant(&n->node, &tensor);
}

// The inputs one after another, with the separator between them; scalars broadcast.
static void handle_join(tf_import* n) {
  const tf_attr_value* attribute = tf_attr_find(n->proto, "separator");
  const carnot_strview separator = attribute ? attribute->s : carnot_view("");
  carnot_value* y = n->inputs[0];
  for (int i = 1; i < n->input_count; i++) {
    if (separator.size)
      y = import_op(&n->node, CARNOT_OP_STRING_CONCAT, NULL, 2, y, text_constant(n, separator));
    y = import_op(&n->node, CARNOT_OP_STRING_CONCAT, NULL, 2, y, n->inputs[i]);
  }
  n->outputs[0] = y;
}

static void match(tf_import* n, carnot_strview pattern) {
  carnot_attrs attrs = {0};
  const char* text = carnot_arena_text(n->node.arena, pattern.data, pattern.size);
  carnot_attrs_set_text(&attrs, n->node.arena, "pattern", text);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_REGEX_FULL_MATCH, &attrs, 1, n->inputs[0]);
}
static void handle_static_match(tf_import* n) {
  const tf_attr_value* pattern = tf_attr_find(n->proto, "pattern");
  if (!pattern || !(pattern->present & TF_HAS_S))
    TF_FAIL(n, INVALID_MODEL, "attribute pattern is missing");
  else
    match(n, pattern->s);
}
static void handle_match(tf_import* n) {
  const carnot_value* pattern = n->inputs[1];
  if (!pattern->constant || pattern->type.dtype != CARNOT_DTYPE_STRING ||
      carnot_tensor_count(&pattern->constant->tensor) != 1)
    TF_FAIL(n, UNSUPPORTED, "the pattern must be constant");
  else
    match(n, *(const carnot_strview*)pattern->constant->tensor.data);
}

static const tf_row kRows[] = {
    {"StringJoin", handle_join, 1, -1, 0, NULL, NULL},
    {"StaticRegexFullMatch", handle_static_match, 1, 1, 0, NULL, NULL},
    {"RegexFullMatch", handle_match, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_text = TF_ROW_TABLE(kRows);
