// On an accelerator: replaces nodes that only move elements of one tensor (transposes, slices,
// splits, gathers and concats of its parts, negated or not) by one gather of rows with constant
// indices, as in cyclic shifts and partitions into windows and in rotary embeddings. The indices
// are found by the reference kernels over a tensor that holds the numbers of its elements.
#include <stdlib.h>

#include "ops/evaluate.h"
#include "pass/emit.h"

enum { kMostSteps = 4, kMostNodes = 48, kMostElements = 1 << 22, kMostRows = 1 << 18 };
// Kernels that a gather has to replace: one that n results share counts 1/n.
static const double kLeastSaved = 1.3;

typedef struct rearrangements {
  const carnot_pass_options* options;
  carnot_value** sources;  // by value id: the tensor whose elements the value holds, or itself
  size_t count;
} rearrangements;

typedef struct moves {
  carnot_node* nodes[kMostNodes];  // the result's node first, each behind its readers
  double weights[kMostNodes];      // share of a node's readers that serve the result
  int count;
} moves;

// Of known dimensions, none of them 0, which a reshape would copy.
static bool is_static(const carnot_value* value) {
  if (!carnot_is_ranked(value) || value->type.dtype == CARNOT_DTYPE_STRING) return false;
  for (int d = 0; d < value->type.rank; d++)
    if (!carnot_sym_is_const(value->type.dims[d]) || value->type.dims[d].bits < 1) return false;
  return true;
}

static int64_t count_of(const carnot_value* value) {
  int64_t count = 1;
  for (int d = 0; d < value->type.rank; d++) count *= value->type.dims[d].bits;
  return count;
}

// ---- what moves elements ----

static carnot_value* source_of(const rearrangements* r, carnot_value* value) {
  return value->id < r->count && r->sources[value->id] ? r->sources[value->id] : value;
}

static bool is_reshape(const carnot_node* node) {
  return node->op == CARNOT_OP_RESHAPE || node->op == CARNOT_OP_SQUEEZE ||
         node->op == CARNOT_OP_UNSQUEEZE;
}

// A negation costs a kernel only where a concat stands behind it.
static bool is_negation_of_part(const carnot_node* node) {
  const carnot_node* reader =
      carnot_node_is_fn(node, CARNOT_FN_NEG) ? carnot_only_user(node->outputs[0]) : NULL;
  while (reader && is_reshape(reader)) reader = carnot_only_user(reader->outputs[0]);
  return reader && reader->op == CARNOT_OP_CONCAT;
}

static bool moves_elements(const carnot_node* node) {
  switch (node->op) {
    case CARNOT_OP_TRANSPOSE:
    case CARNOT_OP_SLICE:
    case CARNOT_OP_EXPAND:
    case CARNOT_OP_SPLIT:
    case CARNOT_OP_GATHER:
    case CARNOT_OP_CONCAT:
    case CARNOT_OP_RESHAPE:
    case CARNOT_OP_SQUEEZE:
    case CARNOT_OP_UNSQUEEZE: return true;
    default: return is_negation_of_part(node);
  }
}

// The tensor whose elements all operands hold; NULL where there is none.
static carnot_value* common_source(const rearrangements* r, const carnot_node* node) {
  const int data = node->op == CARNOT_OP_CONCAT ? node->input_count : 1;
  carnot_value* source = NULL;
  for (int i = 0; i < node->input_count; i++) {
    carnot_value* input = node->inputs[i];
    if (!input) continue;
    if (i >= data && !input->constant) return NULL;
    if (i >= data) continue;
    carnot_value* mine = input->constant ? NULL : source_of(r, input);
    if (!mine || (source && mine != source)) return NULL;
    source = mine;
  }
  return source;
}

static void note_sources(rearrangements* r, carnot_block* block) {
  for (carnot_node* node = block->first; node; node = node->next) {
    carnot_value* source = moves_elements(node) ? common_source(r, node) : NULL;
    bool all = source && is_static(source) && count_of(source) <= kMostElements;
    for (int i = 0; all && i < node->output_count; i++)
      all = node->outputs[i] && is_static(node->outputs[i]) &&
            count_of(node->outputs[i]) <= kMostElements;
    for (int i = 0; all && i < node->output_count; i++)
      if (node->outputs[i]->id < r->count) r->sources[node->outputs[i]->id] = source;
  }
}

static bool is_moved(const rearrangements* r, carnot_value* value) {
  return source_of(r, value) != value;
}

// True for a moved value that others than such nodes read.
static bool is_result(const rearrangements* r, carnot_value* value) {
  bool is_read = value->block_output_count > 0;
  for (size_t i = 0; i < value->use_count && !is_read; i++) {
    const carnot_node* reader = value->uses[i].node;
    is_read = reader->block != value->producer->block || !is_moved(r, reader->outputs[0]);
  }
  return is_moved(r, value) && is_read;
}

// ---- what a result is moved by ----

static size_t uses_of(const carnot_node* node) {
  size_t uses = 0;
  for (int i = 0; i < node->output_count; i++)
    uses += node->outputs[i]->use_count + node->outputs[i]->block_output_count;
  return uses;
}

static int find(const moves* m, const carnot_node* node) {
  int at = 0;
  while (at < m->count && m->nodes[at] != node) at++;
  return at;
}

// Adds the producer of |value| and of what it is made from. False where they are too many.
static bool collect(const rearrangements* r, carnot_value* value, moves* m) {
  carnot_node* node = value->producer;
  if (!is_moved(r, value) || find(m, node) < m->count) return true;
  if (m->count == kMostNodes) return false;
  m->nodes[m->count++] = node;
  const int data = node->op == CARNOT_OP_CONCAT ? node->input_count : 1;
  for (int i = 0; i < data; i++)
    if (!collect(r, node->inputs[i], m)) return false;
  return true;
}

static int by_order(const void* a, const void* b) {
  const carnot_node *x = *(carnot_node*const*)a, *y = *(carnot_node*const*)b;
  return x == y ? 0 : carnot_node_comes_before(x, y) ? 1 : -1;
}

static bool is_view(const carnot_node* node) {
  if (node->op != CARNOT_OP_TRANSPOSE) return is_reshape(node);
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  int64_t last = -1;
  for (size_t i = 0; perm && i < count; i++) {
    if (carnot_sym_is(node->inputs[0]->type.dims[perm[i]], 1)) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return perm != NULL;
}

// Kernels that fall away.
static double saved(moves* m) {
  double sum = 0;
  m->weights[0] = 1;
  for (int i = 0; i < m->count; i++) {
    double serves = 0;
    for (int o = 0; i && o < m->nodes[i]->output_count; o++)
      for (size_t u = 0; u < m->nodes[i]->outputs[o]->use_count; u++) {
        const int reader = find(m, m->nodes[i]->outputs[o]->uses[u].node);
        if (reader < i) serves += m->weights[reader];
      }
    if (i) m->weights[i] = serves / (double)uses_of(m->nodes[i]);
    if (!is_view(m->nodes[i])) sum += m->weights[i];
  }
  return sum;
}

// Pictures, whose channels kernels of convolution want last: a copy by rows would cost a reformat.
// |steps|: nodes that are looked through.
static bool is_picture(const carnot_value* value, int steps) {
  const carnot_node* node = value ? value->producer : NULL;
  if (!node || value->type.rank != 4 || !steps) return false;
  switch (node->op) {
    case CARNOT_OP_CONV:
    case CARNOT_OP_CONV_TRANSPOSE:
    case CARNOT_OP_MAX_POOL:
    case CARNOT_OP_AVERAGE_POOL:
    case CARNOT_OP_RESIZE:
    case CARNOT_OP_BATCH_NORM:
    case CARNOT_OP_GROUP_NORM:
    case CARNOT_OP_INSTANCE_NORM: return true;
    case CARNOT_OP_CONCAT:
    case CARNOT_OP_SPLIT:
    case CARNOT_OP_CAST: break;
    default:
      if (carnot_node_fn(node) == CARNOT_FN_COUNT) return false;
  }
  for (int i = 0; i < node->input_count; i++)
    if (is_picture(node->inputs[i], steps - 1)) return true;
  return false;
}
static bool feeds_convolution(const carnot_value* value) {
  for (size_t i = 0; i < value->use_count; i++)
    if (value->uses[i].node->op == CARNOT_OP_CONV) return true;
  return false;
}

// ---- the numbers of the elements ----

static carnot_status* evaluate(carnot_evaluator* evaluator, const moves* m, carnot_value* source,
                               const carnot_value* result, const int64_t** out) {
  carnot_rt_value* cell = CARNOT_NEW(&evaluator->store, carnot_rt_value);
  const int64_t count = count_of(source);
  void* numbers;
  CARNOT_TRY(
      carnot_arena_try(&evaluator->store, (size_t)count, 8, "numbers of elements", &numbers));
  for (int64_t i = 0; i < count; i++) ((int64_t*)numbers)[i] = i + 1;
  *cell = (carnot_rt_value){
      .kind = CARNOT_VALUE_TENSOR,
      .tensor = {.dtype = CARNOT_DTYPE_I64, .rank = source->type.rank, .data = numbers}};
  for (int d = 0; d < source->type.rank; d++) cell->tensor.dims[d] = source->type.dims[d].bits;
  evaluator->cells[source->id] = cell;
  for (int n = m->count; n-- > 0;) {
    const carnot_node* node = m->nodes[n];
    carnot_rt_value** results =
        CARNOT_NEW_ARRAY(&evaluator->store, carnot_rt_value*, (size_t)node->output_count);
    CARNOT_TRY(carnot_arena_status(&evaluator->store));
    for (int i = 0; i < node->output_count; i++)
      evaluator->cells[node->outputs[i]->id] = results[i] =
          CARNOT_NEW(&evaluator->store, carnot_rt_value);
    CARNOT_TRY(carnot_arena_status(&evaluator->store));
    CARNOT_TRY(carnot_evaluate_node(evaluator, node, results));
  }
  const carnot_tensor* found = &evaluator->cells[result->id]->tensor;
  CARNOT_CHECK(found->dtype == CARNOT_DTYPE_I64 && carnot_tensor_count(found) == count_of(result),
               INTERNAL, "a rearrangement gives other elements than it has");
  *out = found->data;
  return NULL;
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

static int64_t place(int64_t number) { return (number < 0 ? -number : number) - 1; }

// Elements of the rows that stay together: all runs begin and end at multiples of it.
static int64_t row_length(const int64_t* numbers, int64_t count, int64_t source_count) {
  int64_t length = greatest_divisor(count, source_count);
  for (int64_t i = 0; i < count && length > 1; i++)
    if (!i || place(numbers[i]) != place(numbers[i - 1]) + 1)
      length = greatest_divisor(greatest_divisor(length, i), place(numbers[i]));
  return length;
}

// Signs along the last axis, which every row repeats; *out NULL where none is negative.
static bool signs_of(carnot_block* block, const int64_t* numbers, const carnot_value* result,
                     carnot_value** out) {
  const int rank = result->type.rank;
  const int64_t count = count_of(result), last = rank ? result->type.dims[rank - 1].bits : 1;
  bool any = false;
  *out = NULL;
  for (int64_t i = 0; i < count; i++) {
    any = any || numbers[i] < 0;
    if (i >= last && (numbers[i] < 0) != (numbers[i - last] < 0)) return false;
  }
  if (!any) return true;
  carnot_tensor t = {.dtype = result->type.dtype, .rank = 1, .dims = {last}};
  t.data = carnot_arena_alloc(&block->graph->arena, (size_t)last, 8);
  for (int64_t i = 0; t.data && i < last; i++)
    carnot_store_f64(t.dtype, t.data, (size_t)i, numbers[i] < 0 ? -1 : 1);
  *out = carnot_graph_constant(block, NULL, &t);
  return true;
}

// ---- the gather ----

// How many images are moved alike, along the first axis of both; the numbers of the first say all.
static int64_t images_of(const int64_t* numbers, const carnot_value* source,
                         const carnot_value* result) {
  const int64_t count = count_of(result), sources = count_of(source);
  if (source->type.rank < 2 || result->type.rank < 2 || !count) return 1;
  const int64_t images = result->type.dims[0].bits, each = count / images, apart = sources / images;
  if (source->type.dims[0].bits != images) return 1;
  for (int64_t i = each; i < count; i++)
    if (place(numbers[i]) != place(numbers[i - each]) + apart) return 1;
  return images;
}

static carnot_value* emit_indices(carnot_emitter* e, const int64_t* numbers, int64_t rows,
                                  int64_t length) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_I32, .rank = 1, .dims = {rows}};
  t.data = carnot_arena_alloc(&e->at->block->graph->arena, (size_t)rows, 4);
  for (int64_t i = 0; t.data && i < rows; i++)
    ((int32_t*)t.data)[i] = (int32_t)(place(numbers[i * length]) / length);
  return carnot_graph_constant(e->at->block, NULL, &t);
}

static carnot_status* replace(carnot_value* source, carnot_value* result, const int64_t* numbers) {
  carnot_node* at = result->producer;
  carnot_value* signs;
  const int64_t images = images_of(numbers, source, result), count = count_of(result) / images,
                sources = count_of(source) / images, length = row_length(numbers, count, sources);
  if (count / length > kMostRows || !signs_of(at->block, numbers, result, &signs)) return NULL;
  const int64_t shape[3] = {images, sources / length, length},
                *rows = images > 1 ? shape : shape + 1;
  const int axis = images > 1;
  int64_t dims[CARNOT_MAX_RANK];
  for (int d = 0; d < result->type.rank; d++) dims[d] = result->type.dims[d].bits;
  carnot_emitter e = {.at = at};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &at->block->graph->arena, "axis", axis);
  carnot_value* inputs[2] = {carnot_emit_reshape(&e, source, rows, axis + (length > 1 ? 2 : 1)),
                             emit_indices(&e, numbers, count / length, length)};
  carnot_value* value = carnot_emit(&e, CARNOT_OP_GATHER, &attrs, inputs, 2);
  value = carnot_emit_reshape(&e, value, dims, result->type.rank);
  if (signs) value = carnot_emit_binary(&e, CARNOT_FN_MUL, value, signs);
  CARNOT_TRY(e.status);
  carnot_absorb_pattern(value->producer, at);
  value->name = result->name;
  carnot_value_keep_range(value, result);
  carnot_value_replace(result, value);
  return NULL;
}

static carnot_status* rearrange(const rearrangements* r, carnot_value* result) {
  moves m = {.count = 0};
  carnot_value* source = source_of(r, result);
  if (!collect(r, result, &m)) return NULL;
  qsort(m.nodes, (size_t)m.count, sizeof(m.nodes[0]), by_order);
  if (saved(&m) < kLeastSaved || is_picture(source, kMostSteps) || feeds_convolution(result))
    return NULL;
  carnot_evaluator evaluator;
  CARNOT_TRY(
      carnot_evaluator_init(&evaluator, result->producer->block->graph, r->options->executor, 1));
  const int64_t* numbers = NULL;
  carnot_status* status = evaluate(&evaluator, &m, source, result, &numbers);
  if (!status) status = replace(source, result, numbers);
  carnot_evaluator_deinit(&evaluator);
  return status;
}

carnot_status* carnot_pass_fuse_rearrangements(carnot_graph* graph,
                                               const carnot_pass_options* options) {
  rearrangements r = {.options = options, .count = graph->value_count};
  if (!options->device) return NULL;
  void* sources;
  CARNOT_TRY(carnot_calloc(r.count + 1, sizeof(carnot_value*), "values", &sources));
  r.sources = sources;
  note_sources(&r, graph->main);
  carnot_status* status = NULL;
  // Last results first: those before them are still made as they were noted.
  for (carnot_node *node = graph->main->last, *previous; node && !status; node = previous) {
    previous = node->previous;
    for (int i = 0; i < node->output_count && !status; i++)
      if (node->outputs[i] && is_result(&r, node->outputs[i]))
        status = rearrange(&r, node->outputs[i]);
  }
  free(sources);
  if (!status) status = carnot_pass_dce(graph, options);
  return status;
}
