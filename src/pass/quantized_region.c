// Collects quantized regions: [dequantize x, dequantize w, anchor, bias, dequantize r, residual,
// activation, quantize], with an inner quantization before the residual where the network has one.
// The longest region that a kernel takes is fused. Between FP8 values an anchor may compute in half
// precision: casts then stand behind its dequantize nodes and before its quantize node.
#include "pass/quantized_region.h"

enum { kMostNodes = 24, kMostCopies = 8 };

// A dequantize node that was copied for one reader.
typedef struct reader_copy {
  carnot_node *reader, *copy;
  carnot_value* original;
  int input;
} reader_copy;

typedef struct proposal {
  carnot_node* nodes[kMostNodes];  // producers before their readers; the last one makes the result
  int count;
  reader_copy copies[kMostCopies];
  int copy_count;
  int ends[kMostNodes], copies_at[kMostNodes];  // where the region may end: nodes and copies so far
  int end_count;
  bool through;  // a tree goes on behind quantizations of its own values
} proposal;

static carnot_node* dequantize_of(const carnot_node* reader, int input) {
  const carnot_value* value = input < reader->input_count ? reader->inputs[input] : NULL;
  carnot_node* from = value ? value->producer : NULL;
  return from && from->op == CARNOT_OP_DEQUANTIZE_LINEAR && from->block == reader->block ? from
                                                                                         : NULL;
}

// The cast from float32 to half precision that makes operand |input| of |reader|.
static carnot_node* half_cast_of(const carnot_node* reader, int input) {
  carnot_node* cast = reader->inputs[input] ? reader->inputs[input]->producer : NULL;
  return cast && cast->op == CARNOT_OP_CAST && cast->block == reader->block &&
                 carnot_dtype_is_half(cast->outputs[0]->type.dtype) &&
                 cast->inputs[0]->type.dtype == CARNOT_DTYPE_F32
             ? cast
             : NULL;
}

// The dequantize node of an anchor's operand; of FP8 there may be a cast between.
static carnot_node* dequantize_of_operand(const carnot_node* anchor, int input) {
  const carnot_node* cast = half_cast_of(anchor, input);
  carnot_node* from = dequantize_of(cast ? cast : anchor, cast ? 0 : input);
  return from && (!cast || from->inputs[0]->type.dtype == CARNOT_DTYPE_F8E4M3FN) ? from : NULL;
}

bool carnot_is_quantized_anchor(const carnot_node* node) {
  const bool anchor = node->op == CARNOT_OP_CONV || node->op == CARNOT_OP_CONV_TRANSPOSE ||
                      node->op == CARNOT_OP_MATMUL || node->op == CARNOT_OP_GEMM;
  return anchor && node->output_count == 1 && dequantize_of_operand(node, 0) &&
         dequantize_of_operand(node, 1);
}

bool carnot_is_fp8_anchor(const carnot_node* node) {
  return carnot_is_quantized_anchor(node) &&
         dequantize_of_operand(node, 0)->inputs[0]->type.dtype == CARNOT_DTYPE_F8E4M3FN;
}

static carnot_status* copy_for(proposal* p, carnot_node* reader, int input, carnot_node* from,
                               carnot_node** out) {
  CARNOT_TRY(carnot_node_insert_before(reader, from->op, from->name, &from->attrs, from->inputs,
                                       from->input_count, 1, out));
  (*out)->order = from->order;
  (*out)->is_unnamed = from->is_unnamed;
  (*out)->type_name = from->type_name;
  p->copies[p->copy_count++] = (reader_copy){reader, *out, from->outputs[0], input};
  carnot_node_set_input(reader, input, (*out)->outputs[0]);
  return NULL;
}

// Adds the node that makes an operand, or a copy of it where others read it.
static carnot_status* take_producer(proposal* p, carnot_node* reader, int input,
                                    carnot_node** out) {
  *out = reader->inputs[input]->producer;
  if (carnot_only_user(reader->inputs[input]) != reader)
    CARNOT_TRY(copy_for(p, reader, input, *out, out));
  return NULL;
}

// Adds the dequantize node of an operand, and the cast behind it.
static carnot_status* take_operand(proposal* p, carnot_node* reader, int input) {
  carnot_node *from, *cast = NULL;
  CARNOT_TRY(take_producer(p, reader, input, &from));
  if (from->op == CARNOT_OP_CAST) {
    cast = from;
    CARNOT_TRY(take_producer(p, cast, 0, &from));
  }
  p->nodes[p->count++] = from;
  if (cast) p->nodes[p->count++] = cast;
  return NULL;
}

static void mark_end(proposal* p) {
  p->ends[p->end_count] = p->count;
  p->copies_at[p->end_count++] = p->copy_count;
}

// Takes back all copies but the first |keep|.
static void undo_copies(proposal* p, int keep) {
  while (p->copy_count > keep) {
    const reader_copy* c = &p->copies[--p->copy_count];
    carnot_node_set_input(c->reader, c->input, c->original);
    carnot_node_remove(c->copy);
  }
}

// ---- followers ----

static bool is_addition(const carnot_node* node) {
  return node->op == CARNOT_OP_BINARY && carnot_node_is_fn(node, CARNOT_FN_ADD) &&
         node->inputs[0] != node->inputs[1];
}

// Back to float32, for a quantize node alone.
static bool is_cast_to_quantize(const carnot_node* node) {
  const carnot_node* next =
      node->op == CARNOT_OP_CAST && node->outputs[0]->type.dtype == CARNOT_DTYPE_F32
          ? carnot_only_user(node->outputs[0])
          : NULL;
  return next && next->block == node->block && next->op == CARNOT_OP_QUANTIZE_LINEAR &&
         next->inputs[0] == node->outputs[0];
}

static bool is_follower(const carnot_node* node, const carnot_value* value) {
  if (node->op == CARNOT_OP_QUANTIZE_LINEAR) return node->inputs[0] == value;
  if (is_cast_to_quantize(node)) return carnot_dtype_is_half(value->type.dtype);
  return (is_addition(node) || node->op == CARNOT_OP_UNARY) &&
         node->outputs[0]->type.dtype == value->type.dtype &&
         carnot_same_dims(&value->type, &node->outputs[0]->type);
}

// The dequantize node that alone reads the quantized |value|, in front of an addition, or of a
// function where |functions|.
static carnot_node* dequantized_operand(const carnot_value* value, bool functions) {
  carnot_node* node = carnot_only_user(value);
  if (!node || node->block != value->block || node->op != CARNOT_OP_DEQUANTIZE_LINEAR ||
      node->inputs[0] != value)
    return NULL;
  const carnot_node* next = carnot_only_user(node->outputs[0]);
  const bool follows = next && (is_addition(next) || (functions && next->op == CARNOT_OP_UNARY));
  return follows && next->block == node->block ? node : NULL;
}

// On the processor a function of a byte is a table, which is faster than to compute it.
static carnot_status* follow(proposal* p, carnot_value* value, bool functions) {
  bool is_twice = false;
  for (;;) {
    carnot_node* node = carnot_only_user(value);
    if (!node || node->block != value->block || !is_follower(node, value) ||
        p->count + 2 > kMostNodes)
      return NULL;
    const int other = node->inputs[0] == value ? 1 : 0;
    if (is_addition(node) && dequantize_of(node, other) && p->copy_count < kMostCopies)
      CARNOT_TRY(take_operand(p, node, other));
    p->nodes[p->count++] = node;
    if (node->op != CARNOT_OP_CAST) mark_end(p);
    value = node->outputs[0];
    if (node->op != CARNOT_OP_QUANTIZE_LINEAR) continue;
    node = is_twice || p->count == kMostNodes ? NULL : dequantized_operand(value, functions);
    if (!node) return NULL;
    is_twice = true;
    p->nodes[p->count++] = node;
    value = node->outputs[0];
  }
}

static carnot_status* begin(proposal* p, carnot_node* anchor) {
  CARNOT_TRY(take_operand(p, anchor, 0));
  CARNOT_TRY(take_operand(p, anchor, 1));
  p->nodes[p->count++] = anchor;
  mark_end(p);
  return NULL;
}

// Notes at the dequantize nodes of |anchor| why no kernel takes it with them.
static carnot_status* note_refusal(const carnot_pass_options* options, carnot_node* anchor) {
  const char* why = options->refusal ? options->refusal(options->accepts_user) : "";
  const char* note = carnot_arena_print(&anchor->block->graph->arena, "%s (%s): %s", anchor->name,
                                        carnot_node_row(anchor)->name,
                                        why[0] ? why : "no kernel takes it quantized");
  for (int i = 0; i < 2; i++) dequantize_of_operand(anchor, i)->unfused = note;
  return carnot_graph_status(anchor->block->graph);
}

carnot_status* carnot_fuse_quantized(const carnot_pass_options* options, carnot_node* anchor,
                                     carnot_node** out_region) {
  *out_region = NULL;
  proposal p = {.count = 0};
  if (!options->accepts || !carnot_is_quantized_anchor(anchor)) return NULL;
  CARNOT_TRY(begin(&p, anchor));
  CARNOT_TRY(follow(&p, anchor->outputs[0], options->device));
  for (int end = p.end_count - 1; end >= 0; end--) {
    undo_copies(&p, p.copies_at[end]);
    if (carnot_pass_accepts(options, p.nodes, p.ends[end]))
      return carnot_fuse(p.nodes, p.ends[end], out_region);
  }
  undo_copies(&p, 0);
  return note_refusal(options, anchor);
}

carnot_status* carnot_accepts_quantized(const carnot_pass_options* options, carnot_node* anchor,
                                        bool* out) {
  *out = false;
  proposal p = {.count = 0};
  if (!options->accepts || !carnot_is_quantized_anchor(anchor)) return NULL;
  CARNOT_TRY(begin(&p, anchor));
  *out = carnot_pass_accepts(options, p.nodes, p.count);
  undo_copies(&p, 0);
  return NULL;
}

// ---- element-wise operators, norms and reductions between quantized values ----

static bool has_one_scale(const carnot_node* node) {
  const carnot_type* t = &node->inputs[1]->type;
  return t->kind == CARNOT_VALUE_TENSOR &&
         (t->rank == 0 || (t->rank == 1 && carnot_sym_is(t->dims[0], 1)));
}

// An element-wise operator of float32 or half precision, or a cast between them.
static bool is_pointwise(const carnot_node* node) {
  const bool is_cast = node->op == CARNOT_OP_CAST;
  if (!is_cast && carnot_node_fn(node) == CARNOT_FN_COUNT) return false;
  const carnot_dtype to = node->outputs[0]->type.dtype,
                     from = is_cast ? node->inputs[0]->type.dtype : to;
  return (to == CARNOT_DTYPE_F32 || carnot_dtype_is_half(to)) &&
         (from == CARNOT_DTYPE_F32 || carnot_dtype_is_half(from));
}

static carnot_status* gather_operands(proposal* p, carnot_node* node, bool* out_fits);
static carnot_status* gather_tree(proposal* p, carnot_node* root, bool* out_fits);

// The quantize node whose result |dequantize| alone reads, for |reader| alone.
static carnot_node* quantize_before(const carnot_node* dequantize, const carnot_node* reader) {
  const carnot_value* q = dequantize->inputs[0];
  carnot_node* from = q->producer;
  return from && from->op == CARNOT_OP_QUANTIZE_LINEAR && from->block == reader->block &&
                 has_one_scale(from) && carnot_only_user(q) == dequantize &&
                 carnot_only_user(dequantize->outputs[0]) == reader
             ? from
             : NULL;
}

// What makes operand |input| of |reader|, where it may join: bytes dequantized, or an element-wise
// operator of the same dimensions that nothing else reads.
static carnot_status* gather(proposal* p, carnot_node* reader, int input, bool* out_fits) {
  carnot_node* dequantize = dequantize_of(reader, input);
  const carnot_value* value = reader->inputs[input];
  if (dequantize) {
    *out_fits = has_one_scale(dequantize) && !dequantize->inputs[0]->constant &&
                p->count < kMostNodes && p->copy_count < kMostCopies;
    carnot_node* before = p->through ? quantize_before(dequantize, reader) : NULL;
    if (before && *out_fits) CARNOT_TRY(gather_tree(p, before, out_fits));
    *out_fits = *out_fits && p->count < kMostNodes;
    return *out_fits ? take_operand(p, reader, input) : NULL;
  }
  carnot_node* from = value->producer;
  if (!from || from->block != reader->block || !is_pointwise(from) ||
      carnot_only_user(value) != reader ||
      !carnot_same_dims(&value->type, &reader->outputs[0]->type))
    return NULL;
  CARNOT_TRY(gather_operands(p, from, out_fits));
  if (p->count == kMostNodes) *out_fits = false;
  if (*out_fits) p->nodes[p->count++] = from;
  return NULL;
}

static carnot_status* gather_operands(proposal* p, carnot_node* node, bool* out_fits) {
  for (int i = 0; i < node->input_count && *out_fits; i++)
    if (node->inputs[i]) CARNOT_TRY(gather(p, node, i, out_fits));
  return NULL;
}

// The whole tree above |root|, whose other operands come from outside.
static carnot_status* gather_tree(proposal* p, carnot_node* root, bool* out_fits) {
  *out_fits = true;
  if (root->op == CARNOT_OP_QUANTIZE_LINEAR)
    CARNOT_TRY(gather(p, root, 0, out_fits));
  else
    CARNOT_TRY(gather_operands(p, root, out_fits));
  if (p->count == kMostNodes) *out_fits = false;
  if (*out_fits) p->nodes[p->count++] = root;
  return NULL;
}

static bool holds_dequantize(const proposal* p) {
  for (int i = 0; i < p->count; i++)
    if (p->nodes[i]->op == CARNOT_OP_DEQUANTIZE_LINEAR) return true;
  return false;
}

static bool holds(const proposal* p, const carnot_node* node) {
  for (int i = 0; i < p->count; i++)
    if (p->nodes[i] == node) return true;
  return false;
}

// Whether a tree that goes on behind quantizations of its own reads one quantized value alone.
static bool is_function_of_one(const proposal* p) {
  const carnot_value* x = NULL;
  int quantizations = 0;
  for (int i = 0; i < p->count; i++) {
    const carnot_node* node = p->nodes[i];
    quantizations += node->op == CARNOT_OP_QUANTIZE_LINEAR;
    if (node->op != CARNOT_OP_DEQUANTIZE_LINEAR || holds(p, node->inputs[0]->producer)) continue;
    if (x && x != node->inputs[0]) return false;
    x = node->inputs[0];
  }
  return x && quantizations > 1;
}

// As carnot_fuse_quantized_tree, of x * quantized(sigmoid(x)) and the like: a function of one byte,
// whatever is quantized on the way.
static carnot_status* fuse_function_of_one(const carnot_pass_options* options, carnot_node* root,
                                           carnot_node** out_region) {
  proposal p = {.through = true};
  bool fits;
  CARNOT_TRY(gather_tree(&p, root, &fits));
  if (fits && is_function_of_one(&p) && carnot_pass_accepts(options, p.nodes, p.count))
    return carnot_fuse(p.nodes, p.count, out_region);
  undo_copies(&p, 0);
  return NULL;
}

carnot_status* carnot_fuse_quantized_tree(const carnot_pass_options* options, carnot_node* root,
                                          carnot_node** out_region) {
  *out_region = NULL;
  proposal p = {.count = 0};
  bool fits, quantizes = root->op == CARNOT_OP_QUANTIZE_LINEAR && has_one_scale(root);
  if (!options->accepts || (!quantizes && !is_pointwise(root))) return NULL;
  if (quantizes) CARNOT_TRY(fuse_function_of_one(options, root, out_region));
  if (*out_region) return NULL;
  CARNOT_TRY(gather_tree(&p, root, &fits));
  if (fits && p.count > 1 && (quantizes || holds_dequantize(&p)) &&
      carnot_pass_accepts(options, p.nodes, p.count))
    return carnot_fuse(p.nodes, p.count, out_region);
  undo_copies(&p, 0);
  return NULL;
}

// The quantize node that reads the only result of |node|, directly or as float32, and comes before
// what else reads it.
static carnot_node* quantize_behind(const carnot_node* node) {
  const carnot_value* value = node->outputs[0];
  carnot_node* found = NULL;
  if (node->output_count != 1) return NULL;
  for (size_t i = 0; i < value->use_count && !found; i++) {
    carnot_node* reader = value->uses[i].node;
    if (is_cast_to_quantize(reader)) reader = carnot_only_user(reader->outputs[0]);
    if (reader->op == CARNOT_OP_QUANTIZE_LINEAR && value->uses[i].input == 0 &&
        reader->block == node->block)
      found = reader;
  }
  for (size_t i = 0; found && i < value->use_count; i++) {
    const carnot_node* reader = value->uses[i].node;
    const bool is_its_cast = found->inputs[0]->producer == reader;
    if (reader->block != node->block || (!is_its_cast && !carnot_node_comes_before(found, reader)))
      return NULL;
  }
  return found;
}

// What may join an operator that reads and writes bytes; NULL where there is none.
typedef struct byte_ends {
  bool dequantizes;
  carnot_node *activation, *quantize;
} byte_ends;

static carnot_status* fuse_ends(const carnot_pass_options* options, carnot_node* node,
                                const byte_ends* ends, carnot_node** out_region) {
  proposal p = {.count = 0};
  if (ends->dequantizes) CARNOT_TRY(take_operand(&p, node, 0));
  p.nodes[p.count++] = node;
  if (ends->activation) p.nodes[p.count++] = ends->activation;
  if (ends->quantize) {
    carnot_node* cast = ends->quantize->inputs[0]->producer;
    if (cast->op == CARNOT_OP_CAST) p.nodes[p.count++] = cast;
    p.nodes[p.count++] = ends->quantize;
  }
  if (carnot_pass_accepts(options, p.nodes, p.count))
    return carnot_fuse(p.nodes, p.count, out_region);
  undo_copies(&p, 0);
  return NULL;
}

// The function of one operand that alone reads the only result of |node|.
static carnot_node* activation_behind(const carnot_node* node) {
  carnot_node* next = node->output_count == 1 ? carnot_only_user(node->outputs[0]) : NULL;
  return next && next->block == node->block && next->op == CARNOT_OP_UNARY && is_pointwise(next)
             ? next
             : NULL;
}

// From the most that may join down, with at least one conversion.
carnot_status* carnot_fuse_byte_ends(const carnot_pass_options* options, carnot_node* node,
                                     carnot_node** out_region) {
  *out_region = NULL;
  if (!options->accepts || !carnot_op_has_trait(node->op, CARNOT_TRAIT_BYTE_ENDS)) return NULL;
  const bool dequantizes = dequantize_of(node, 0) != NULL;
  for (carnot_node* activation = activation_behind(node);; activation = NULL) {
    carnot_node* quantize = quantize_behind(activation ? activation : node);
    const byte_ends tries[] = {{dequantizes, activation, quantize},
                               {false, activation, quantize},
                               {dequantizes, activation, NULL}};
    for (int i = 0; i < 3 && !*out_region; i++)
      if (tries[i].dequantizes || tries[i].quantize)
        CARNOT_TRY(fuse_ends(options, node, &tries[i], out_region));
    if (*out_region || !activation) return NULL;
  }
}

// ---- what stays apart ----

static const char* why_apart(carnot_node* node) {
  carnot_arena* arena = &node->block->graph->arena;
  const bool down = node->op == CARNOT_OP_QUANTIZE_LINEAR;
  const carnot_value* value = down ? node->inputs[0] : node->outputs[0];
  const carnot_node* other = down ? value->producer : value->use_count ? value->uses[0].node : NULL;
  if (!other)
    return down ? "its operand is an input of the network"
                : "its result is an output of the network";
  return carnot_arena_print(arena, "%s computes in %s", other->name,
                            carnot_dtype_name(value->type.dtype));
}

carnot_status* carnot_note_unfused(carnot_block* block) {
  for (carnot_node* node = block->first; node; node = node->next)
    if ((node->op == CARNOT_OP_QUANTIZE_LINEAR || node->op == CARNOT_OP_DEQUANTIZE_LINEAR) &&
        !node->unfused)
      node->unfused = why_apart(node);
  return carnot_graph_status(block->graph);
}
