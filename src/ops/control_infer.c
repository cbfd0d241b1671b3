// Inference of loop and scan: types that hold in every iteration.
#include "ops/control.h"

enum { kMostRounds = 4 };  // of looking for types that hold in every iteration

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

// True when |s| is made of symbols that were in the table before |start|. |budget| bounds the
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

carnot_status* carnot_control_infer(carnot_infer* infer, carnot_infer_input* inputs,
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
    CARNOT_TRY(infer->infer_block(infer, carnot_control_body(infer->attrs, "body"), input_count,
                                  inputs, output_count, outputs));
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

void carnot_control_set_stacked(carnot_infer* infer, int i, const carnot_type* item,
                                carnot_sym count, int64_t axis) {
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = item->kind == CARNOT_VALUE_TENSOR && item->rank >= 0 ? item->rank + 1 : -1;
  if (rank > CARNOT_MAX_RANK) rank = -1;
  if (axis < 0) axis += rank;
  for (int d = 0, from = 0; d < rank; d++) dims[d] = d == axis ? count : item->dims[from++];
  carnot_infer_set(infer, i, item->dtype, rank, dims);
}
