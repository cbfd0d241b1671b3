// Memory layouts that the user asked for inputs and outputs: the graph's input becomes the tensor
// as it lies in memory, and nodes behind it reformat it; the same in front of outputs. Passes and
// selection treat these nodes like others, so that a channels-last convolution reads HWC in place.
#include "builder/internal.h"

// Nodes are added before |before|, or at the end of |block|.
typedef struct maker {
  carnot_block* block;
  carnot_node* before;
  carnot_node* first;  // the first node added
  const char* name;
} maker;

static carnot_status* add(maker* m, carnot_op op, const carnot_attrs* attrs,
                          carnot_value* const* inputs, int input_count, carnot_value** out) {
  carnot_node* node;
  CARNOT_TRY(m->before ? carnot_node_insert_before(m->before, op, m->name, attrs, inputs,
                                                   input_count, 1, &node)
                       : carnot_block_add_node(m->block, op, m->name, attrs, inputs, input_count,
                                               NULL, 1, &node));
  if (!m->first) m->first = node;
  *out = node->outputs[0];
  return NULL;
}

static carnot_status* transpose(maker* m, carnot_value* x, const int64_t* perm,
                                carnot_value** out) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &m->block->graph->arena, "perm", perm, (size_t)x->type.rank);
  return add(m, CARNOT_OP_TRANSPOSE, &attrs, &x, 1, out);
}

// x[..., :count, ...] on |axis|.
static carnot_status* take_first(maker* m, carnot_value* x, int64_t axis, int64_t count,
                                 carnot_value** out) {
  const int64_t zero = 0;
  carnot_value* inputs[4] = {x, carnot_graph_ints(m->block, &zero, 1),
                             carnot_graph_ints(m->block, &count, 1),
                             carnot_graph_ints(m->block, &axis, 1)};
  return add(m, CARNOT_OP_SLICE, NULL, inputs, 4, out);
}

// |count| zeros behind |axis|.
static carnot_status* pad_behind(maker* m, carnot_value* x, int axis, int64_t count,
                                 carnot_value** out) {
  int64_t pads[2 * CARNOT_MAX_RANK] = {0};
  pads[x->type.rank + axis] = count;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, &m->block->graph->arena, "mode", "constant");
  carnot_value* inputs[3] = {x, carnot_graph_ints(m->block, pads, 2 * x->type.rank), NULL};
  return add(m, CARNOT_OP_PAD, &attrs, inputs, 3, out);
}

static carnot_status* dims_of(maker* m, carnot_value* x, int start, int end, carnot_value** out) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->block->graph->arena, "start", start);
  carnot_attrs_set_int(&attrs, &m->block->graph->arena, "end", end);
  return add(m, CARNOT_OP_SHAPE, &attrs, &x, 1, out);
}

// Dimensions [at, at + gone) of |x| become |dims| [count].
static carnot_status* reshape(maker* m, carnot_value* x, int at, int gone, const int64_t* dims,
                              int count, carnot_value** out) {
  carnot_value* parts[3];
  int part_count = 0;
  if (at) CARNOT_TRY(dims_of(m, x, 0, at, &parts[part_count++]));
  parts[part_count++] = carnot_graph_ints(m->block, dims, count);
  if (at + gone < x->type.rank)
    CARNOT_TRY(dims_of(m, x, at + gone, x->type.rank, &parts[part_count++]));
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->block->graph->arena, "axis", 0);
  carnot_value* inputs[2] = {x, parts[0]};
  if (part_count > 1) CARNOT_TRY(add(m, CARNOT_OP_CONCAT, &attrs, parts, part_count, &inputs[1]));
  // A batch of 0 is one, not a copy of the dimension.
  carnot_attrs zeros = {0};
  carnot_attrs_set_int(&zeros, &m->block->graph->arena, "allowzero", 1);
  return add(m, CARNOT_OP_RESHAPE, &zeros, inputs, 2, out);
}

// |x| as it lies in memory → the tensor that the network's layers read, of |type|.
static carnot_status* from_format(maker* m, const carnot_io_tensor* io, carnot_value* x,
                                  carnot_value** out) {
  carnot_io_format f = carnot_io_format_of(io->format);
  int rank = io->type.rank, channel = carnot_io_channel(&f, rank);
  carnot_sym channels = io->type.dims[channel];
  bool is_padded = carnot_sym_is_const(channels) && channels.bits % f.block;
  int64_t perm[CARNOT_MAX_RANK];
  for (int i = 0; i < channel; i++) perm[i] = i;
  if (f.kind == CARNOT_IO_LAST) {
    if (is_padded) CARNOT_TRY(take_first(m, x, rank - 1, channels.bits, &x));
    perm[channel] = rank - 1;
    for (int i = channel + 1; i < rank; i++) perm[i] = i - 1;
    return transpose(m, x, perm, out);
  }
  perm[channel] = channel;
  perm[channel + 1] = rank;
  for (int i = channel + 2; i <= rank; i++) perm[i] = i - 1;
  CARNOT_TRY(transpose(m, x, perm, &x));
  int64_t all = (channels.bits + f.block - 1) / f.block * f.block;
  CARNOT_TRY(reshape(m, x, channel, 2, &all, 1, &x));
  *out = x;
  return is_padded ? take_first(m, x, channel, channels.bits, out) : NULL;
}

// A result of the network → the tensor as it lies in memory.
static carnot_status* to_format(maker* m, const carnot_io_tensor* io, carnot_value* x,
                                carnot_value** out) {
  carnot_io_format f = carnot_io_format_of(io->format);
  int rank = io->type.rank, channel = carnot_io_channel(&f, rank);
  carnot_sym channels = io->type.dims[channel];
  int64_t missing = carnot_sym_is_const(channels) ? -channels.bits & (f.block - 1) : 0;
  if (missing) CARNOT_TRY(pad_behind(m, x, channel, missing, &x));
  int64_t perm[CARNOT_MAX_RANK];
  for (int i = 0; i < channel; i++) perm[i] = i;
  if (f.kind == CARNOT_IO_LAST) {
    for (int i = channel; i < rank - 1; i++) perm[i] = i + 1;
    perm[rank - 1] = channel;
    return transpose(m, x, perm, out);
  }
  const int64_t blocks[2] = {(channels.bits + missing) / f.block, f.block};
  CARNOT_TRY(reshape(m, x, channel, 1, blocks, 2, &x));
  perm[channel] = channel;
  for (int i = channel + 1; i < rank; i++) perm[i] = i + 1;
  perm[rank] = channel + 1;
  return transpose(m, x, perm, out);
}

// ---- what the user asked for ----

// LINEAR where it is allowed, else the first that the tensor can have.
static carnot_status* choose(uint32_t allowed, const char* name, const carnot_type* type,
                             carnot_tensor_format* out) {
  *out = CARNOT_TENSOR_LINEAR;
  if (allowed & 1u << CARNOT_TENSOR_LINEAR) return NULL;
  CARNOT_CHECK(allowed && allowed < 1u << CARNOT_TENSOR_FORMAT_COUNT, INVALID_ARGUMENT,
               "tensor %s: allowed formats 0x%x, must be a set of bits [0, %d)", name, allowed,
               (int)CARNOT_TENSOR_FORMAT_COUNT);
  CARNOT_CHECK(type->kind == CARNOT_VALUE_TENSOR && type->rank >= 0, INVALID_ARGUMENT,
               "tensor %s: a format other than chw needs a fixed number of dimensions", name);
  int64_t dims[CARNOT_MAX_RANK];
  for (int d = 0; d < type->rank; d++)
    dims[d] = carnot_sym_is_const(type->dims[d]) ? type->dims[d].bits : -1;
  carnot_status* status = NULL;
  for (int i = 0; i < CARNOT_TENSOR_FORMAT_COUNT; i++) {
    if (!(allowed & 1u << i)) continue;
    carnot_status* no =
        carnot_io_format_check((carnot_tensor_format)i, name, type->dtype, type->rank, dims);
    *out = (carnot_tensor_format)i;
    if (!no) {
      carnot_status_free(status);
      return NULL;
    }
    if (status)
      carnot_status_free(no);
    else
      status = no;
  }
  return status;
}

static carnot_status* request_of(carnot_builder* builder, const char* name,
                                 const carnot_value* value, bool* found, carnot_io_tensor* out) {
  const carnot_build_config* config = builder->config;
  *out = (carnot_io_tensor){.type = value->type};
  for (size_t i = 0; i < config->io_format_count; i++) {
    if (strcmp(config->io_formats[i].name, name) != 0) continue;
    found[i] = true;
    CARNOT_TRY(choose(config->io_formats[i].allowed, name, &value->type, &out->format));
  }
  return NULL;
}

static void store_type(carnot_io_tensor* io, carnot_type* type) {
  carnot_io_format f = carnot_io_format_of(io->format);
  int64_t from[CARNOT_MAX_RANK], to[CARNOT_MAX_RANK];
  int channel = carnot_io_channel(&f, io->type.rank);
  // Dynamic dimensions go where the numbers of their positions go.
  for (int d = 0; d < io->type.rank; d++) from[d] = d;
  from[channel] = carnot_sym_is_const(io->type.dims[channel]) ? io->type.dims[channel].bits : -1;
  type->rank = carnot_io_stored_dims(io->format, io->type.rank, from, to);
  int last = type->rank - 1;
  for (int d = 0; d <= last; d++) {
    bool is_channel = d == last || (f.kind == CARNOT_IO_BLOCKED && d == channel);
    type->dims[d] = !is_channel ? io->type.dims[to[d]]
                    : to[d] < 0 ? io->type.dims[channel]
                                : carnot_sym_of(to[d]);
  }
}

static carnot_status* reformat_input(carnot_builder* builder, size_t index, carnot_io_tensor* io) {
  carnot_block* main = builder->graph->main;
  carnot_value *param = main->params[index], *inside;
  store_type(io, &param->type);
  maker m = {.block = main, .before = main->first, .name = param->name};
  CARNOT_TRY(from_format(&m, io, param, &inside));
  carnot_value_replace(param, inside);
  carnot_node_set_input(m.first, 0, param);
  return NULL;
}

static carnot_status* reformat_output(carnot_builder* builder, size_t index,
                                      const carnot_io_tensor* io) {
  carnot_block* main = builder->graph->main;
  maker m = {.block = main, .name = builder->output_names[index]};
  carnot_value* stored;
  CARNOT_TRY(to_format(&m, io, main->outputs[index], &stored));
  carnot_block_set_output(main, index, stored);
  return NULL;
}

carnot_status* carnot_apply_io_formats(carnot_builder* builder) {
  carnot_block* main = builder->graph->main;
  carnot_arena* arena = &builder->graph->arena;
  bool* found = CARNOT_NEW_ARRAY(arena, bool, builder->config->io_format_count + 1);
  builder->input_io = CARNOT_NEW_ARRAY(arena, carnot_io_tensor, main->param_count + 1);
  builder->output_io = CARNOT_NEW_ARRAY(arena, carnot_io_tensor, main->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < main->param_count; i++)
    CARNOT_TRY(
        request_of(builder, main->params[i]->name, main->params[i], found, &builder->input_io[i]));
  for (size_t i = 0; i < main->output_count; i++)
    CARNOT_TRY(request_of(builder, builder->output_names[i], main->outputs[i], found,
                          &builder->output_io[i]));
  for (size_t i = 0; i < builder->config->io_format_count; i++)
    CARNOT_CHECK(found[i], INVALID_ARGUMENT,
                 "a format was asked for tensor %s, which is no input or output of the network",
                 builder->config->io_formats[i].name);
  for (size_t i = 0; i < main->param_count; i++)
    if (builder->input_io[i].format != CARNOT_TENSOR_LINEAR)
      CARNOT_TRY_AT(reformat_input(builder, i, &builder->input_io[i]), "format of input %s",
                    main->params[i]->name);
  for (size_t i = 0; i < main->output_count; i++)
    if (builder->output_io[i].format != CARNOT_TENSOR_LINEAR)
      CARNOT_TRY_AT(reformat_output(builder, i, &builder->output_io[i]), "format of output %s",
                    builder->output_names[i]);
  return NULL;
}
