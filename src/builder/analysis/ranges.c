// Notes calibrated ranges in the graph, before the passes while the user's names hold, and says
// what they do not reach.
#include <stdio.h>
#include <stdlib.h>

#include "builder/internal.h"
#include "pass/pass.h"

enum { kMostNames = 10 };

// A list of names for a message: the first few, and how many there are.
typedef struct names {
  char text[1024];
  size_t size, count;
} names;

static void add_name(names* list, const char* name) {
  if (list->count++ >= kMostNames || list->size >= sizeof(list->text)) return;
  int wrote = snprintf(list->text + list->size, sizeof(list->text) - list->size, "%s%s",
                       list->size ? ", " : "", name);
  if (wrote > 0) list->size += (size_t)wrote;
}

static void warn(const carnot_builder* builder, const names* list, const char* one,
                 const char* many) {
  char message[1400];
  if (!list->count) return;
  snprintf(message, sizeof(message), "%zu %s: %s%s", list->count, list->count == 1 ? one : many,
           list->text, list->count > kMostNames ? ", ..." : "");
  carnot_builder_warn(builder, message);
}

// Factors by channel of |value|, which the graph borrows from the ranges.
static void set_equalization(const carnot_builder* builder, carnot_value* value) {
  carnot_channel_factors factors;
  if (!carnot_ranges_get_factors(builder->ranges, value->name, &factors)) return;
  carnot_equalization* e = CARNOT_NEW(&builder->graph->arena, carnot_equalization);
  if (!e) return;
  *e = (carnot_equalization){factors.factors, factors.count, {factors.min, factors.max}};
  value->equalization = e;
}

// Sets the range of |value|; counts it in |found|.
static void set_range(const carnot_builder* builder, carnot_value* value, size_t* found) {
  double min, max;
  if (!value || value->constant || !carnot_ranges_get(builder->ranges, value->name, &min, &max))
    return;
  value->range[0] = min;
  value->range[1] = max;
  set_equalization(builder, value);
  (*found)++;
}

static bool has_tensor(const carnot_block* block, const char* name) {
  for (size_t i = 0; i < block->param_count; i++)
    if (strcmp(block->params[i]->name, name) == 0) return true;
  for (const carnot_node* node = block->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i] && strcmp(node->outputs[i]->name, name) == 0) return true;
  return false;
}

static void warn_of_unknown(const carnot_builder* builder, size_t found) {
  const carnot_ranges* ranges = builder->ranges;
  names unknown = {.size = 0};
  for (size_t i = 0; i < carnot_ranges_count(ranges) && found < carnot_ranges_count(ranges); i++) {
    if (has_tensor(builder->graph->main, carnot_ranges_name(ranges, i))) continue;
    add_name(&unknown, carnot_ranges_name(ranges, i));
  }
  warn(builder, &unknown, "range of the calibration without a tensor in the network",
       "ranges of the calibration without a tensor in the network");
}

carnot_status* carnot_apply_ranges(carnot_builder* builder) {
  if (!builder->ranges) return NULL;
  const carnot_block* block = builder->graph->main;
  const bool obeys = builder->config->typing.constraints == CARNOT_CONSTRAINTS_OBEY;
  names without = {.size = 0};
  size_t found = 0;
  for (size_t i = 0; i < block->param_count; i++) set_range(builder, block->params[i], &found);
  for (const carnot_node* node = block->first; node; node = node->next) {
    const bool is_asked = node->precision == CARNOT_DTYPE_I8;
    if (carnot_takes_qdq(node) && !carnot_value_is_constant(node->inputs[0]) &&
        !carnot_value_has_range(node->inputs[0])) {
      CARNOT_CHECK(!is_asked || !obeys, INVALID_ARGUMENT,
                   "layer %s cannot obey the request for int8: its input %s has no range",
                   node->name, node->inputs[0]->name);
      add_name(&without, node->name);
    }
    builder->must_quantize |= is_asked;
    for (int i = 0; i < node->output_count; i++) set_range(builder, node->outputs[i], &found);
  }
  warn(builder, &without, "layer without a range of its input stays in floating point",
       "layers without a range of their input stay in floating point");
  warn_of_unknown(builder, found);
  return carnot_arena_status(&builder->graph->arena);
}

// What is written to a file stays quantized, whatever kernels this machine has.
static bool accept_all(void* user, carnot_node* const* nodes, int count) {
  (void)user, (void)nodes, (void)count;
  return true;
}

carnot_status* carnot_quantize_graph(carnot_graph* graph, const carnot_build_config* config,
                                     const carnot_qdq_style* style) {
  carnot_builder builder = {.config = config, .ranges = config->ranges, .graph = graph};
  carnot_precision_constraints typing = config->typing;
  typing.i8 = true;
  CARNOT_TRY(carnot_precision_constraints_apply(graph, &typing, config->log, config->user));
  CARNOT_TRY(carnot_apply_ranges(&builder));
  const carnot_pass_options passes = {.quantize = true, .qdq = *style, .accepts = accept_all};
  return carnot_pass_insert_qdq(graph, &passes);
}
