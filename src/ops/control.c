// Control flow. Bodies are closed: what they read from around stands behind ONNX's inputs, and
// behind ONNX's parameters in the body, in the same order.
//   if: condition, what then_branch reads (then_inputs of them), what else_branch reads
//   loop: trip count or absent, condition or absent, |carried| values, what the body reads.
//     body(iteration, condition, carried.., read..) → condition, carried.., scanned..; scanned ones
//     are stacked
//   scan: |carried| values, |scanned| tensors, what the body reads.
//     body(carried.., a slice of each.., read..) → carried.., scanned..
//   sequence_map: sequences and tensors, the first a sequence; the last |captured| inputs are what
//   the body reads.
//     body(an item of each sequence, each tensor.., read..) → an item of each output
// Outputs have no sizes before they ran, except while building, where the body's types are known.
// Source: ONNX If-25, Loop-25, Scan-25, SequenceMap-17.
#include "ops/infer_help.h"
#include "ops/rt_value.h"
#include "ops/strided_copy.h"

enum { kMostRounds = 4 };  // of looking for types that hold in every iteration

static const carnot_attr* body_attr(const carnot_attrs* attrs, const char* name) {
  return carnot_attrs_find(attrs, name);
}

// A count of inputs or outputs among the attributes, which an engine may give any value.
static carnot_status* count_attr(const carnot_call* call, const char* name, int most,
                                 int* out_count) {
  int64_t count = carnot_call_int(call, name);
  CARNOT_CHECK(count >= 0 && count <= most, INVALID_MODEL, "%s is %lld, must be 0 to %d", name,
               (long long)count, most);
  *out_count = (int)count;
  return NULL;
}

// ---- if ----

static carnot_status* infer_if(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  int then_count = (int)carnot_infer_int(infer, "then_inputs"), count = infer->output_count;
  CARNOT_CHECK(then_count >= 0 && then_count < infer->input_count, INVALID_MODEL,
               "then_inputs is %d", then_count);
  carnot_infer_output* outputs[2];
  for (int b = 0; b < 2; b++) {
    outputs[b] = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, (size_t)count + 1);
    CARNOT_TRY(carnot_arena_status(infer->arena));
    const carnot_infer_input* inputs = infer->inputs + 1 + (b ? then_count : 0);
    int input_count = b ? infer->input_count - 1 - then_count : then_count;
    const char* name = b ? "else_branch" : "then_branch";
    CARNOT_TRY_AT(infer->infer_block(infer, body_attr(infer->attrs, name), input_count, inputs,
                                     count, outputs[b]),
                  "%s", name);
  }
  for (int i = 0; i < count; i++) {
    infer->outputs[i].type = carnot_infer_join(infer, &outputs[0][i].type, &outputs[1][i].type);
  }
  return NULL;
}

static carnot_status* run_if(carnot_call* call) {
  const carnot_tensor* condition = carnot_call_in(call, 0);
  CARNOT_CHECK(condition && carnot_tensor_count(condition) == 1, INVALID_ARGUMENT,
               "the condition has %lld elements, must be 1",
               condition ? (long long)carnot_tensor_count(condition) : 0);
  bool yes = *(const uint8_t*)condition->data != 0;
  int then_count = 0;
  CARNOT_TRY(count_attr(call, "then_inputs", call->input_count - 1, &then_count));
  int first = yes ? 1 : 1 + then_count,
      count = yes ? then_count : call->input_count - 1 - then_count;
  void* memory;
  CARNOT_TRY(
      carnot_call_alloc(call, sizeof(carnot_rt_value) * (size_t)call->output_count, &memory));
  carnot_rt_value* outputs = memory;
  memset(outputs, 0, sizeof(*outputs) * (size_t)call->output_count);
  const carnot_attr* body = body_attr(call->attrs, yes ? "then_branch" : "else_branch");
  CARNOT_TRY(call->host->run_block(call->host, body, count, call->inputs + first,
                                   call->output_count, outputs));
  for (int i = 0; i < call->output_count; i++) CARNOT_TRY(carnot_call_give(call, i, &outputs[i]));
  return NULL;
}

// ---- loop and scan: types that hold in every iteration ----

// Widens |type| to hold |next| too; |fresh| has a bit for each dimension that holds anything
// already.
static bool widen(carnot_infer* infer, carnot_type* type, const carnot_type* next,
                  unsigned* fresh) {
  if (type->kind != CARNOT_VALUE_TENSOR || next->kind != CARNOT_VALUE_TENSOR || type->rank < 0)
    return false;
  if (type->rank != next->rank) {
    type->rank = -1;
    return true;
  }
  bool changed = false;
  for (int d = 0; d < type->rank; d++) {
    if (*fresh >> d & 1 || carnot_sym_same(type->dims[d], next->dims[d])) continue;
    type->dims[d] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
    *fresh |= 1u << d;
    changed = true;
  }
  return changed;
}

// True when |s| is made of symbols that stood in the table before |start|. |budget| bounds the
// walk.
static bool from_before(const carnot_syms* syms, carnot_sym s, size_t start, int* budget) {
  if (carnot_sym_is_const(s) || carnot_sym_index(s) < start) return true;
  const carnot_sym_expr* e = carnot_sym_get(syms, s);
  int arity = carnot_sym_arity(e->op);
  if (arity == 0 || --*budget < 0) return e->op == CARNOT_SYM_F_CONST;
  return from_before(syms, e->a, start, budget) &&
         (arity < 2 || from_before(syms, e->b, start, budget)) &&
         (arity < 3 || from_before(syms, e->c, start, budget));
}

// A type as it is seen outside of a body: symbols that only mean something inside become unknown
// sizes.
static carnot_type seen_outside(carnot_infer* infer, const carnot_type* type, size_t start) {
  carnot_type out = *type;
  for (int d = 0; d < out.rank; d++) {
    int budget = 64;
    if (!from_before(infer->syms, out.dims[d], start, &budget))
      out.dims[d] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  }
  return out;
}

// Infers the body with |inputs|, of which |carried| from |first| on take the types of its outputs
// from |first_out| on, until nothing changes. Sets the carried outputs; those that are stacked are
// left in |outputs| as seen outside.
static carnot_status* infer_iterations(carnot_infer* infer, carnot_infer_input* inputs,
                                       int input_count, int first, int carried, int first_out,
                                       carnot_infer_output* outputs, int output_count) {
  carnot_type* types = CARNOT_NEW_ARRAY(infer->arena, carnot_type, (size_t)carried + 1);
  unsigned* fresh = CARNOT_NEW_ARRAY(infer->arena, unsigned, (size_t)carried + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  size_t start = infer->syms->count;
  for (int i = 0; i < carried; i++) {
    types[i] = *inputs[first + i].type;
    inputs[first + i] = (carnot_infer_input){.type = &types[i]};
  }
  for (int round = 0;; round++) {
    CARNOT_TRY(infer->infer_block(infer, body_attr(infer->attrs, "body"), input_count, inputs,
                                  output_count, outputs));
    bool changed = false;
    for (int i = 0; i < carried; i++)
      changed |= widen(infer, &types[i], &outputs[first_out + i].type, &fresh[i]);
    if (!changed) break;
    // Dimensions can only become unknown one after the other; then the ranks do.
    for (int i = 0; i < carried && round >= kMostRounds; i++) {
      if (types[i].kind == CARNOT_VALUE_TENSOR) types[i].rank = -1;
    }
  }
  for (int i = 0; i < carried && i < infer->output_count; i++) {
    const carnot_type* result = &outputs[first_out + i].type;
    infer->outputs[i].type = seen_outside(infer, &types[i], start);
    if (types[i].kind != CARNOT_VALUE_TENSOR)
      infer->outputs[i].type = carnot_infer_join(infer, &types[i], result);
  }
  for (int i = carried; i < infer->output_count; i++) {
    carnot_infer_output* stacked = &outputs[first_out + i];
    stacked->type = seen_outside(infer, &stacked->type, start);
  }
  return NULL;
}

// A stacked output: the body's dimensions with |count| put in on |axis|.
static void set_stacked(carnot_infer* infer, int i, const carnot_type* item, carnot_sym count,
                        int64_t axis) {
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = item->kind == CARNOT_VALUE_TENSOR && item->rank >= 0 ? item->rank + 1 : -1;
  if (rank > CARNOT_MAX_RANK) rank = -1;
  if (axis < 0) axis += rank;
  for (int d = 0, from = 0; d < rank; d++) dims[d] = d == axis ? count : item->dims[from++];
  carnot_infer_set(infer, i, item->dtype, rank, dims);
}

// ---- loop ----

static carnot_status* infer_loop(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  int carried = (int)carnot_infer_int(infer, "carried");
  CARNOT_CHECK(carried >= 0 && 2 + carried <= infer->input_count && carried <= infer->output_count,
               INVALID_MODEL, "%d carried values of %d inputs and %d outputs", carried,
               infer->input_count, infer->output_count);
  carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64, .rank = 0};
  carnot_type condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL, .rank = 0};
  size_t input_count = (size_t)infer->input_count, output_count = (size_t)infer->output_count + 1;
  carnot_infer_input* inputs = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_input, input_count + 1);
  carnot_infer_output* outputs = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, output_count);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  memcpy(inputs, infer->inputs, input_count * sizeof(*inputs));
  inputs[0] = (carnot_infer_input){.type = &iteration};
  inputs[1] = (carnot_infer_input){.type = &condition};
  CARNOT_TRY(
      infer_iterations(infer, inputs, (int)input_count, 2, carried, 1, outputs, (int)output_count));
  for (int i = carried; i < infer->output_count; i++) {
    set_stacked(infer, i, &outputs[1 + i].type, carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED),
                0);
  }
  return NULL;
}

// What runs a body again and again: cells in, cells out.
typedef struct iterations {
  carnot_call* call;
  const carnot_attr* body;
  const carnot_rt_value** inputs;
  carnot_rt_value* outputs;
  int input_count, output_count;
  carnot_rt_value_list* scanned;  // of each output that is stacked
  bool turns;                     // the memory of past iterations is given up
} iterations;

static void loop(const carnot_call* call, carnot_loop_phase phase) {
  if (call->host->loop) call->host->loop(call->host, phase);
}

// Text and items of sequences lie apart from the cells that point to them.
static bool is_plain(const carnot_rt_value* cell) {
  return cell->kind == CARNOT_VALUE_TENSOR && cell->tensor.dtype != CARNOT_DTYPE_STRING;
}

static carnot_status* iterations_init(iterations* it, carnot_call* call, int input_count,
                                      int output_count, int scanned_count) {
  void* memory;
  *it = (iterations){.call = call,
                     .body = body_attr(call->attrs, "body"),
                     .input_count = input_count,
                     .output_count = output_count};
  CARNOT_TRY(carnot_call_alloc(call, ((size_t)input_count + 1) * sizeof(*it->inputs), &memory));
  it->inputs = memory;
  CARNOT_TRY(carnot_call_alloc(call, ((size_t)scanned_count + 1) * sizeof(*it->scanned), &memory));
  it->scanned = memset(memory, 0, ((size_t)scanned_count + 1) * sizeof(*it->scanned));
  return NULL;
}

// Runs the body once; its results stand in fresh cells.
static carnot_status* iterations_step(iterations* it) {
  void* memory;
  size_t bytes = ((size_t)it->output_count + 1) * sizeof(*it->outputs);
  CARNOT_TRY(carnot_call_alloc(it->call, bytes, &memory));
  it->outputs = memset(memory, 0, bytes);
  return it->call->host->run_block(it->call->host, it->body, it->input_count, it->inputs,
                                   it->output_count, it->outputs);
}

// What the next iteration takes from this one: |carried| results from |first| on, to the inputs
// from |to| on; the |scanned| results behind them are listed. The first iteration shows whether all
// values are plain tensors; then the others' memory is taken in turns: what an iteration only
// passes on from the one before is copied, since that one's memory goes, and what is listed is
// copied to where it lasts.
static carnot_status* iterations_turn(iterations* it, int first, int carried, int to, int scanned) {
  const carnot_call* call = it->call;
  const carnot_rt_value** next = it->inputs + to;
  bool plain = call->host->loop != NULL;
  for (int i = 0; i < it->output_count; i++) plain = plain && is_plain(&it->outputs[i]);
  CARNOT_CHECK(plain || !it->turns, INVALID_MODEL,
               "an iteration gives values of other kinds than the one before");
  for (int i = 0; i < carried; i++) {
    next[i] = &it->outputs[first + i];
    if (it->turns && call->host->is_passing(call->host, next[i]->tensor.data))
      CARNOT_TRY(carnot_call_keep(call, &it->outputs[first + i], &next[i]));
  }
  if (it->turns) loop(call, CARNOT_LOOP_OUTER);
  for (int i = 0; i < scanned; i++) {
    const carnot_rt_value* cell = &it->outputs[first + carried + i];
    if (it->turns) CARNOT_TRY(carnot_call_keep(call, cell, &cell));
    CARNOT_TRY(carnot_rt_value_list_add(call, &it->scanned[i], cell));
  }
  if (plain) loop(call, it->turns ? CARNOT_LOOP_NEXT : CARNOT_LOOP_BEGIN);
  it->turns = plain;
  return NULL;
}

// The last values of what was carried are the results, in memory that outlives the loop.
static carnot_status* iterations_end(iterations* it, int first_input, int carried) {
  if (it->turns) loop(it->call, CARNOT_LOOP_OUTER);
  for (int i = 0; i < carried; i++) {
    const carnot_rt_value* cell = it->inputs[first_input + i];
    const carnot_rt_value* out = it->call->outputs[i];
    bool placed = out && out->kind == CARNOT_VALUE_TENSOR && out->tensor.data;
    if (it->turns && !placed) CARNOT_TRY(carnot_call_keep(it->call, cell, &cell));
    CARNOT_TRY(carnot_call_give(it->call, i, cell));
  }
  if (it->turns) loop(it->call, CARNOT_LOOP_END);
  return NULL;
}

// The type of stacked output |i| that no iteration gave, as the importer noted it.
static carnot_status* empty_type(const carnot_call* call, size_t i, carnot_dtype* out_dtype,
                                 int* out_rank) {
  size_t dtype_count, rank_count;
  const int64_t* dtypes = carnot_attr_ints(call->attrs, "scan_dtypes", &dtype_count);
  const int64_t* ranks = carnot_attr_ints(call->attrs, "scan_ranks", &rank_count);
  int64_t dtype = i < dtype_count ? dtypes[i] : CARNOT_DTYPE_F32;
  int64_t rank = i < rank_count && ranks[i] >= 0 ? ranks[i] + 1 : 1;
  CARNOT_CHECK(dtype >= 0 && dtype < CARNOT_DTYPE_COUNT && rank <= CARNOT_MAX_RANK, INVALID_MODEL,
               "stacked output %zu has type %lld and rank %lld", i, (long long)dtype,
               (long long)rank);
  *out_dtype = (carnot_dtype)dtype;
  *out_rank = (int)rank;
  return NULL;
}

static carnot_status* scalar_cell(const carnot_call* call, carnot_dtype dtype, int64_t value,
                                  const carnot_rt_value** out) {
  carnot_rt_value* cell;
  const int64_t no_dims[1] = {0};
  CARNOT_TRY(carnot_call_new_tensor(call, dtype, 0, no_dims, &cell));
  carnot_store_i64(dtype, cell->tensor.data, 0, value);
  *out = cell;
  return NULL;
}

static bool is_true(const carnot_rt_value* cell) {
  return cell->kind == CARNOT_VALUE_TENSOR && carnot_tensor_count(&cell->tensor) > 0 &&
         *(const uint8_t*)cell->tensor.data != 0;
}

static carnot_status* run_loop(carnot_call* call) {
  int carried = 0, most_carried = (int)carnot_min_i64(call->input_count - 2, call->output_count);
  CARNOT_TRY(count_attr(call, "carried", most_carried, &carried));
  int scanned = call->output_count - carried;
  const carnot_tensor* trips = carnot_call_in(call, 0);
  CARNOT_CHECK(!trips || carnot_tensor_count(trips) == 1, INVALID_MODEL,
               "the trip count has %lld elements, must be 1",
               (long long)carnot_tensor_count(trips));
  int64_t most = trips ? carnot_load_i64(trips->dtype, trips->data, 0) : INT64_MAX;
  bool again = !carnot_call_in(call, 1) || is_true(call->inputs[1]);
  iterations it;
  CARNOT_TRY(iterations_init(&it, call, call->input_count, 1 + call->output_count, scanned));
  for (int i = 2; i < call->input_count; i++) it.inputs[i] = call->inputs[i];
  CARNOT_TRY(scalar_cell(call, CARNOT_DTYPE_BOOL, again, &it.inputs[1]));
  for (int64_t trip = 0; again && trip < most; trip++) {
    CARNOT_TRY(scalar_cell(call, CARNOT_DTYPE_I64, trip, &it.inputs[0]));
    CARNOT_TRY_AT(iterations_step(&it), "iteration %lld", (long long)trip);
    again = is_true(&it.outputs[0]);
    CARNOT_TRY(iterations_turn(&it, 0, 1 + carried, 1, scanned));
  }
  CARNOT_TRY(iterations_end(&it, 2, carried));
  for (int i = 0; i < scanned; i++) {
    carnot_dtype dtype;
    int rank;
    CARNOT_TRY(empty_type(call, (size_t)i, &dtype, &rank));
    CARNOT_TRY(carnot_call_stack(call, carried + i, it.scanned[i].items, it.scanned[i].count, 0,
                                 false, dtype, rank));
  }
  return NULL;
}

// ---- scan ----

static int64_t listed(const carnot_attrs* attrs, const char* name, int i) {
  size_t count;
  const int64_t* values = carnot_attr_ints(attrs, name, &count);
  return (size_t)i < count ? values[i] : 0;
}

static carnot_status* infer_scan(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  int carried = (int)carnot_infer_int(infer, "carried"),
      scanned = (int)carnot_infer_int(infer, "scanned");
  CARNOT_CHECK(carried >= 0 && scanned > 0 && carried + scanned <= infer->input_count &&
                   carried <= infer->output_count,
               INVALID_MODEL, "%d carried and %d scanned of %d inputs", carried, scanned,
               infer->input_count);
  size_t input_count = (size_t)infer->input_count, output_count = (size_t)infer->output_count;
  carnot_infer_input* inputs = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_input, input_count + 1);
  carnot_infer_output* outputs =
      CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, output_count + 1);
  carnot_type* slices = CARNOT_NEW_ARRAY(infer->arena, carnot_type, (size_t)scanned);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  memcpy(inputs, infer->inputs, input_count * sizeof(*inputs));
  carnot_sym steps = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  for (int i = 0; i < scanned; i++) {
    const carnot_type* x;
    CARNOT_TRY(carnot_infer_tensor(infer, carried + i, &x));
    slices[i] = *x;
    inputs[carried + i] = (carnot_infer_input){.type = &slices[i]};
    if (x->rank < 0) continue;
    int axis;
    CARNOT_TRY(
        carnot_axis(listed(infer->attrs, "scan_input_axes", i), x->rank, "scan axis", &axis));
    steps = x->dims[axis];
    slices[i].rank--;
    for (int d = axis; d < slices[i].rank; d++) slices[i].dims[d] = x->dims[d + 1];
  }
  CARNOT_TRY(
      infer_iterations(infer, inputs, (int)input_count, 0, carried, 0, outputs, (int)output_count));
  for (int i = carried; i < infer->output_count; i++) {
    set_stacked(infer, i, &outputs[i].type, steps,
                listed(infer->attrs, "scan_output_axes", i - carried));
  }
  return NULL;
}

// Slice |at| of |x| on |axis| in a cell of its own.
static carnot_status* take_slice(const carnot_call* call, const carnot_tensor* x, int axis,
                                 int64_t at, const carnot_rt_value** out_cell) {
  int64_t dims[CARNOT_MAX_RANK];
  for (int d = 0; d < x->rank - 1; d++) dims[d] = x->dims[d < axis ? d : d + 1];
  carnot_rt_value* cell;
  CARNOT_TRY(carnot_call_new_tensor(call, x->dtype, x->rank - 1, dims, &cell));
  int64_t outer = carnot_dims_count(x->dims, axis),
          inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  carnot_strided_copy move = {.dtype = x->dtype,
                              .rank = 2,
                              .dims = {outer, inner},
                              .src_strides = {x->dims[axis] * inner, 1},
                              .dst_strides = {inner, 1},
                              .src_offset = at * inner};
  carnot_strided_copy_run(&move, cell->tensor.data, x->data);
  *out_cell = cell;
  return NULL;
}

static carnot_status* scan_length(const carnot_call* call, int carried, int scanned,
                                  int64_t* out_steps) {
  *out_steps = -1;
  for (int i = 0; i < scanned; i++) {
    const carnot_tensor* x = carnot_call_in(call, carried + i);
    CARNOT_CHECK(x, INVALID_MODEL, "scan input %d is absent", i);
    int axis;
    CARNOT_TRY(carnot_axis(listed(call->attrs, "scan_input_axes", i), x->rank, "scan axis", &axis));
    CARNOT_CHECK(*out_steps < 0 || *out_steps == x->dims[axis], INVALID_ARGUMENT,
                 "scan input %d has %lld steps, others have %lld", i, (long long)x->dims[axis],
                 (long long)*out_steps);
    *out_steps = x->dims[axis];
  }
  return NULL;
}

static carnot_status* run_scan(carnot_call* call) {
  int carried = 0, scanned = 0, most = (int)carnot_min_i64(call->input_count, call->output_count);
  CARNOT_TRY(count_attr(call, "carried", most, &carried));
  CARNOT_TRY(count_attr(call, "scanned", call->input_count - carried, &scanned));
  int stacked = call->output_count - carried;
  int64_t steps;
  CARNOT_TRY(scan_length(call, carried, scanned, &steps));
  iterations it;
  CARNOT_TRY(iterations_init(&it, call, call->input_count, call->output_count, stacked));
  for (int i = 0; i < call->input_count; i++) it.inputs[i] = call->inputs[i];
  for (int64_t step = 0; step < steps; step++) {
    for (int i = 0; i < scanned; i++) {
      const carnot_tensor* x = carnot_call_in(call, carried + i);
      int axis;
      CARNOT_TRY(
          carnot_axis(listed(call->attrs, "scan_input_axes", i), x->rank, "scan axis", &axis));
      int64_t at = listed(call->attrs, "scan_input_directions", i) ? steps - 1 - step : step;
      CARNOT_TRY(take_slice(call, x, axis, at, &it.inputs[carried + i]));
    }
    CARNOT_TRY_AT(iterations_step(&it), "step %lld", (long long)step);
    CARNOT_TRY(iterations_turn(&it, 0, carried, 0, stacked));
  }
  CARNOT_TRY(iterations_end(&it, 0, carried));
  for (int i = 0; i < stacked; i++) {
    carnot_dtype dtype;
    int rank;
    CARNOT_TRY(empty_type(call, (size_t)i, &dtype, &rank));
    CARNOT_TRY(carnot_call_stack(call, carried + i, it.scanned[i].items, it.scanned[i].count,
                                 listed(call->attrs, "scan_output_axes", i),
                                 listed(call->attrs, "scan_output_directions", i) != 0, dtype,
                                 rank));
  }
  return NULL;
}

// ---- sequence_map ----

static carnot_status* infer_map(carnot_infer* infer) {
  if (!infer->infer_block) {
    for (int i = 0; i < infer->output_count; i++)
      carnot_infer_set_list(infer, i, CARNOT_VALUE_SEQUENCE, NULL);
    return NULL;
  }
  int whole = infer->input_count - (int)carnot_infer_int(infer, "captured");
  carnot_infer_input* inputs =
      CARNOT_NEW_ARRAY(infer->arena, carnot_infer_input, (size_t)infer->input_count + 1);
  carnot_infer_output* outputs =
      CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, (size_t)infer->output_count + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  memcpy(inputs, infer->inputs, (size_t)infer->input_count * sizeof(*inputs));
  for (int i = 0; i < whole; i++) {
    const carnot_type* type = inputs[i].type;
    // A sequence of unknown items leaves the parameter the type that it has.
    if (type && type->kind == CARNOT_VALUE_SEQUENCE)
      inputs[i] = (carnot_infer_input){.type = type->element};
  }
  CARNOT_TRY(infer->infer_block(infer, body_attr(infer->attrs, "body"), infer->input_count, inputs,
                                infer->output_count, outputs));
  for (int i = 0; i < infer->output_count; i++) {
    carnot_infer_set_list(infer, i, CARNOT_VALUE_SEQUENCE, &outputs[i].type);
  }
  return NULL;
}

static carnot_status* run_map(carnot_call* call) {
  const carnot_rt_value* first = call->inputs[0];
  CARNOT_CHECK(first && first->kind == CARNOT_VALUE_SEQUENCE, INVALID_ARGUMENT,
               "input 0 is no sequence");
  int captured = 0;
  CARNOT_TRY(count_attr(call, "captured", call->input_count, &captured));
  int whole = call->input_count - captured;
  iterations it;
  CARNOT_TRY(iterations_init(&it, call, call->input_count, call->output_count, call->output_count));
  for (size_t step = 0; step < first->item_count; step++) {
    for (int i = 0; i < call->input_count; i++) {
      const carnot_rt_value* x = call->inputs[i];
      it.inputs[i] = x;
      if (i >= whole || !x || x->kind != CARNOT_VALUE_SEQUENCE) continue;
      CARNOT_CHECK(x->item_count == first->item_count, INVALID_ARGUMENT,
                   "sequence %d has %zu items, sequence 0 has %zu", i, x->item_count,
                   first->item_count);
      it.inputs[i] = x->items[step];
    }
    CARNOT_TRY_AT(iterations_step(&it), "item %zu", step);
    for (int i = 0; i < call->output_count; i++) {
      const carnot_rt_value* kept;
      CARNOT_TRY(carnot_call_keep(call, &it.outputs[i], &kept));
      CARNOT_TRY(carnot_rt_value_list_add(call, &it.scanned[i], kept));
    }
  }
  for (int i = 0; i < call->output_count; i++) {
    CARNOT_TRY(carnot_call_set_items(call, i, CARNOT_VALUE_SEQUENCE, it.scanned[i].items,
                                     it.scanned[i].count));
  }
  return NULL;
}

// ---- rows ----

static const carnot_attr_spec kIf[] = {{"then_branch", CARNOT_ATTR_BLOCK, true, 0, NULL},
                                       {"else_branch", CARNOT_ATTR_BLOCK, true, 0, NULL},
                                       {"then_inputs", CARNOT_ATTR_INT, false, 0, NULL},
                                       {0}};
// scan_dtypes and scan_ranks tell what a stacked output holds that no iteration gave.
static const carnot_attr_spec kLoop[] = {{"body", CARNOT_ATTR_BLOCK, true, 0, NULL},
                                         {"carried", CARNOT_ATTR_INT, true, 0, NULL},
                                         {"scan_dtypes", CARNOT_ATTR_INTS, false, 0, NULL},
                                         {"scan_ranks", CARNOT_ATTR_INTS, false, 0, NULL},
                                         {0}};
static const carnot_attr_spec kScan[] = {
    {"body", CARNOT_ATTR_BLOCK, true, 0, NULL},
    {"carried", CARNOT_ATTR_INT, true, 0, NULL},
    {"scanned", CARNOT_ATTR_INT, true, 0, NULL},
    {"scan_input_axes", CARNOT_ATTR_INTS, false, 0, NULL},
    {"scan_input_directions", CARNOT_ATTR_INTS, false, 0, NULL},
    {"scan_output_axes", CARNOT_ATTR_INTS, false, 0, NULL},
    {"scan_output_directions", CARNOT_ATTR_INTS, false, 0, NULL},
    {"scan_dtypes", CARNOT_ATTR_INTS, false, 0, NULL},
    {"scan_ranks", CARNOT_ATTR_INTS, false, 0, NULL},
    {0}};
static const carnot_attr_spec kMap[] = {
    {"body", CARNOT_ATTR_BLOCK, true, 0, NULL}, {"captured", CARNOT_ATTR_INT, false, 0, NULL}, {0}};

const carnot_op_row carnot_op_if = {
    .name = "if",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT,
    .attrs = kIf,
    .infer = infer_if,
    .reference = run_if,
    .source = "ONNX If-25",
    .layer_type = "CONDITION",
};
const carnot_op_row carnot_op_loop = {
    .name = "loop",
    .min_inputs = 2,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT,
    .attrs = kLoop,
    .infer = infer_loop,
    .reference = run_loop,
    .source = "ONNX Loop-25",
    .layer_type = "RECURRENCE",
};
const carnot_op_row carnot_op_scan = {
    .name = "scan",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT,
    .attrs = kScan,
    .infer = infer_scan,
    .reference = run_scan,
    .source = "ONNX Scan-25",
    .layer_type = "RECURRENCE",
};
const carnot_op_row carnot_op_sequence_map = {
    .name = "sequence_map",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL,
    .attrs = kMap,
    .infer = infer_map,
    .reference = run_map,
    .source = "ONNX SequenceMap-17",
    .layer_type = "REFERENCE",
};
