// The verifier and the printer.
#include <stdio.h>
#include <stdlib.h>

#include "ir/graph.h"

typedef struct checker {
  bool* defined;  // by value id
} checker;

static carnot_status* check_block(checker* c, const carnot_block* block);

static carnot_status* check_node(checker* c, const carnot_node* node) {
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    if (!value) continue;
    CARNOT_CHECK(value->constant || c->defined[value->id], INTERNAL,
                 "node %s reads %s before it is defined", node->name, value->name);
    bool listed = false;
    for (size_t u = 0; u < value->use_count; u++)
      listed |= value->uses[u].node == node && value->uses[u].input == i;
    CARNOT_CHECK(listed, INTERNAL, "node %s reads %s, which does not list it", node->name,
                 value->name);
  }
  for (size_t i = 0; i < node->attrs.count; i++)
    if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK)
      CARNOT_TRY(check_block(c, node->attrs.items[i].block));
  for (int i = 0; i < node->output_count; i++) {
    const carnot_value* value = node->outputs[i];
    if (!value) continue;
    CARNOT_CHECK(value->producer == node && value->output == i, INTERNAL,
                 "node %s: output %s names another producer", node->name, value->name);
    CARNOT_CHECK(!c->defined[value->id], INTERNAL, "value %s is defined twice", value->name);
    c->defined[value->id] = true;
  }
  return NULL;
}

static carnot_status* check_block(checker* c, const carnot_block* block) {
  for (size_t i = 0; i < block->param_count; i++) c->defined[block->params[i]->id] = true;
  const carnot_node* previous = NULL;
  for (const carnot_node* node = block->first; node; node = node->next) {
    CARNOT_CHECK(node->previous == previous && node->block == block, INTERNAL,
                 "node %s is linked wrongly", node->name);
    CARNOT_TRY(check_node(c, node));
    previous = node;
  }
  for (size_t i = 0; i < block->output_count; i++) {
    const carnot_value* value = block->outputs[i];
    CARNOT_CHECK(value->constant || c->defined[value->id], INTERNAL, "result %s is never defined",
                 value->name);
  }
  return NULL;
}

carnot_status* carnot_graph_verify(const carnot_graph* graph) {
  void* defined;
  CARNOT_TRY(carnot_calloc(graph->value_count, sizeof(bool), "the verifier", &defined));
  checker c = {.defined = defined};
  carnot_status* status = check_block(&c, graph->main);
  free(defined);
  return status;
}

// ---- printing ----

static void print_value(const carnot_value* value, FILE* out) {
  if (!value) {
    fputs("-", out);
  } else {
    fprintf(out, "%%%u", value->id);
  }
}

enum { kMaxPrinted = 8 };  // elements of a constant

// ":const int64[2]=[0,-1]"; elements of small constants of numbers only.
static void print_constant(const carnot_value* value, FILE* out) {
  char text[256];
  carnot_type_print(&value->block->graph->syms, &value->type, text, sizeof(text));
  fprintf(out, ":const %s", text);
  const carnot_tensor* t = &value->constant->tensor;
  if (!t->data || t->dtype == CARNOT_DTYPE_STRING || carnot_tensor_count(t) > kMaxPrinted) return;
  int64_t count = carnot_tensor_count(t);
  fputs("=[", out);
  for (int64_t i = 0; i < count; i++)
    fprintf(out, i ? ",%g" : "%g", carnot_load_f64(t->dtype, t->data, (size_t)i));
  fputs("]", out);
}

static void print_attr(const carnot_attr* attr, FILE* out) {
  fprintf(out, " %s=", attr->name);
  switch (attr->type) {
    case CARNOT_ATTR_INT: fprintf(out, "%lld", (long long)attr->i); break;
    case CARNOT_ATTR_FLOAT: fprintf(out, "%g", attr->f); break;
    case CARNOT_ATTR_STRING:
      fprintf(out, "\"" CARNOT_VIEW_FMT "\"", CARNOT_VIEW_ARG(attr->s));
      break;
    case CARNOT_ATTR_INTS:
      for (size_t i = 0; i < attr->count; i++)
        fprintf(out, "%s%lld", i ? "," : "[", (long long)attr->ints[i]);
      fputs(attr->count ? "]" : "[]", out);
      break;
    case CARNOT_ATTR_BLOCK: fputs("{…}", out); break;
    default: fprintf(out, "(%zu)", attr->count); break;
  }
}

static void print_block(const carnot_block* block, int indent, FILE* out) {
  char text[256];
  for (size_t i = 0; i < block->param_count; i++) {
    carnot_type_print(&block->graph->syms, &block->params[i]->type, text, sizeof(text));
    fprintf(out, "%*sinput %%%u \"%s\" : %s\n", indent, "", block->params[i]->id,
            block->params[i]->name, text);
  }
  for (const carnot_node* node = block->first; node; node = node->next) {
    fprintf(out, "%*s", indent, "");
    for (int i = 0; i < node->output_count; i++) {
      if (i) fputs(", ", out);
      print_value(node->outputs[i], out);
    }
    const carnot_attr* fn = carnot_attrs_find(&node->attrs, "fn");
    bool pointwise = fn && fn->type == CARNOT_ATTR_INT;
    fprintf(out, " = %s(",
            pointwise ? carnot_fn_get((carnot_fn)fn->i)->name : carnot_node_row(node)->name);
    for (int i = 0; i < node->input_count; i++) {
      if (i) fputs(", ", out);
      print_value(node->inputs[i], out);
      if (node->inputs[i] && node->inputs[i]->constant) print_constant(node->inputs[i], out);
    }
    fputc(')', out);
    for (size_t i = 0; i < node->attrs.count; i++)
      if (!pointwise || &node->attrs.items[i] != fn) print_attr(&node->attrs.items[i], out);
    for (int i = 0; i < node->output_count; i++) {
      if (!node->outputs[i]) continue;
      carnot_type_print(&block->graph->syms, &node->outputs[i]->type, text, sizeof(text));
      fprintf(out, " : %s", text);
    }
    fprintf(out, "  # %s", node->name);
    for (size_t i = 0; i < node->absorbed_count; i++) fprintf(out, " + %s", node->absorbed[i].name);
    fputc('\n', out);
    for (size_t i = 0; i < node->attrs.count; i++)
      if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK)
        print_block(node->attrs.items[i].block, indent + 4, out);
  }
  fprintf(out, "%*soutput", indent, "");
  for (size_t i = 0; i < block->output_count; i++)
    fprintf(out, " %%%u \"%s\"", block->outputs[i]->id, block->outputs[i]->name);
  fputc('\n', out);
}

void carnot_graph_print(const carnot_graph* graph, void* file) {
  print_block(graph->main, 0, file);
}
