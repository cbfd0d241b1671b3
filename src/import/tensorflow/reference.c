// References of nodes to results: "node", "node:1" and, in functions, "node:output:1".
#include <string.h>

#include "import/tensorflow/scope.h"

bool tf_is_name(carnot_strview text) { return text.size && !memchr(text.data, 0, text.size); }

static bool parse_index(carnot_strview text, int64_t* out) {
  int64_t value = 0;
  if (!text.size || text.size > 9) return false;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    value = value * 10 + (text.data[i] - '0');
  }
  *out = value;
  return true;
}

// Cuts what is behind the first colon off |text|; empty where there is none.
static carnot_strview cut(carnot_strview* text) {
  const char* colon = text->size ? memchr(text->data, ':', text->size) : NULL;
  carnot_strview rest = {NULL, 0};
  if (!colon) return rest;
  rest.data = colon + 1;
  rest.size = text->size - (size_t)(colon + 1 - text->data);
  text->size = (size_t)(colon - text->data);
  return rest;
}

bool tf_reference_read(carnot_strview text, tf_reference* out) {
  *out = (tf_reference){.node = text};
  if (text.size && text.data[0] == '^') {
    out->is_control = true;
    out->node = (carnot_strview){text.data + 1, text.size - 1};
    return true;
  }
  carnot_strview second = cut(&out->node), third = cut(&second);
  if (!second.size) return out->node.size > 0;
  if (!third.size) {
    if (parse_index(second, &out->index)) return true;
    out->output = second;
    return true;
  }
  out->output = second;
  return parse_index(third, &out->index);
}

int64_t tf_output_number(const tf_slot* slot, const tf_reference* r) {
  const tf_row* row = tf_row_find(slot->proto->op);
  if (!r->output.size || !row || !row->outputs) return r->index;
  int64_t number = 0;
  for (const char* at = row->outputs; *at; number++) {
    const size_t length = strcspn(at, " ");
    if (carnot_view_equal(r->output, (carnot_strview){at, length})) return number + r->index;
    at += length + (at[length] == ' ');
  }
  return -1;
}

bool tf_slot_is(const tf_slot* slot, const char* op) {
  if (!slot) return false;
  carnot_strview name = slot->proto->op;
  // The forms for references are the same.
  if (name.size > 3 && memcmp(name.data, "Ref", 3) == 0) name.data += 3, name.size -= 3;
  return carnot_view_is(name, op);
}
