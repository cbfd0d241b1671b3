// Inlines functions of the library.
#include "import/tensorflow/scope.h"

static carnot_status* bind_arguments(const tf_function* f, tf_scope* scope,
                                     carnot_value* const* args, int count) {
  CARNOT_CHECK(f->signature->input_arg.count == (size_t)count, INVALID_MODEL,
               "function \"" CARNOT_VIEW_FMT "\" takes %zu arguments; %d are given",
               CARNOT_VIEW_ARG(f->signature->name), f->signature->input_arg.count, count);
  for (int i = 0; i < count; i++)
    import_name_map_set(&scope->args, f->signature->input_arg.items[i].name, args[i]);
  return NULL;
}

static carnot_status* result_of(tf_importer* importer, tf_scope* scope, const tf_function* f,
                                carnot_strview name, carnot_value** out) {
  for (size_t i = 0; i < f->ret.count; i++)
    if (carnot_view_equal(f->ret.items[i].key, name))
      return tf_scope_value(importer, scope, f->ret.items[i].value, out);
  return CARNOT_ERROR(INVALID_MODEL, "function \"" CARNOT_VIEW_FMT "\" returns no " CARNOT_VIEW_FMT,
                      CARNOT_VIEW_ARG(f->signature->name), CARNOT_VIEW_ARG(name));
}

carnot_status* tf_function_inline(tf_import* n, carnot_strview name, carnot_block* block,
                                  carnot_value* const* args, int count, carnot_value** outputs,
                                  int* out_count) {
  const import_name_slot* found = import_name_map_find(&n->importer->functions, name);
  CARNOT_CHECK(found, INVALID_MODEL, "node \"%s\": there is no function \"" CARNOT_VIEW_FMT "\"",
               n->node.name, CARNOT_VIEW_ARG(name));
  CARNOT_CHECK(n->scope->depth < TF_MOST_DEPTH, INVALID_MODEL,
               "function \"" CARNOT_VIEW_FMT "\" is called more than %d deep",
               CARNOT_VIEW_ARG(name), TF_MOST_DEPTH);
  CARNOT_CHECK(n->importer->call_count++ < TF_MOST_CALLS, OUT_OF_RANGE,
               "node \"%s\": more than %d calls of functions are inlined", n->node.name,
               TF_MOST_CALLS);
  const tf_function* f = found->item;
  tf_scope scope = {.function = f, .depth = n->scope->depth + 1};
  scope.prefix = carnot_arena_print(n->node.arena, "%s/", n->node.name);
  CARNOT_TRY(tf_scope_init(n->importer, &scope, &f->node_def, block));
  CARNOT_TRY(bind_arguments(f, &scope, args, count));
  *out_count = (int)f->signature->output_arg.count;
  CARNOT_CHECK(*out_count <= TF_MOST_OUTPUTS, UNSUPPORTED, "%d results; at most %d are supported",
               *out_count, TF_MOST_OUTPUTS);
  for (int i = 0; i < *out_count; i++)
    CARNOT_TRY(
        result_of(n->importer, &scope, f, f->signature->output_arg.items[i].name, &outputs[i]));
  return NULL;
}
