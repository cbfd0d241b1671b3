// What LSTM, GRU and the simple RNN share: layout, directions, sequence lengths, activations.
//   X [T,B,I], W [D,G*H,I], R [D,G*H,H], bias [D,2*G*H] (Wb then Rb), lengths [B], initial state
//   [D,B,H] Y [T,D,B,H], Y_h [D,B,H]; with layout 1: X [B,T,I], Y [B,T,D,H], states [B,D,H]
// T time, B batch, I input, H hidden size, G gates, D directions. Sequences shorter than T leave
// zeros in Y and end where they end; the reverse direction begins at their end. Beyond ONNX, input
// 8 is a mask, BOOL [T,B] (with layout 1 [B,T]): a step where it is false keeps the state of its
// sequence, which Y repeats. Computed in double.
#ifndef CARNOT_OPS_RECURRENT_H_
#define CARNOT_OPS_RECURRENT_H_

#include "ops/elementwise_fn.h"
#include "ops/util.h"

enum { CARNOT_RECURRENT_GATES = 4, CARNOT_RECURRENT_ACTIVATIONS = 3, CARNOT_RECURRENT_MASK = 8 };

typedef struct carnot_recurrent {
  int64_t time, batch, input, hidden, directions, gates;
  bool batch_first, reverse;  // reverse: the only direction goes backward
  double clip;                // 0: none
  carnot_fn_call activations[2][CARNOT_RECURRENT_ACTIVATIONS];
  const double *x, *bias, *initial_h, *initial_c;  // all but x may be NULL
  double *input_gates[2], *transposed[2];          // x*W^T + Wb, and R^T, of each direction
  const int64_t* lengths;
  const uint8_t* mask;          // may be NULL
  double *y, *last_h, *last_c;  // may be NULL
  double* scratch;              // (2 + 2*gates) * hidden a sequence
} carnot_recurrent;

// One step of one sequence: |gates| [G*H] holds x*W^T + Wb, |h| and |c| the state, which it
// replaces. |scratch| has G*H numbers.
typedef void (*carnot_recurrent_step)(const void* context, const carnot_recurrent* r, int direction,
                                      double* gates, double* h, double* c, double* scratch);

// Output i < 3 gets its dimensions; |gates| is G. Input 0 is X, 1 W, 2 R.
carnot_status* carnot_recurrent_infer(carnot_infer* infer, int64_t gates) CARNOT_MUST_USE;
// Runs all sequences. |defaults|: names of the |count| activations of one direction, where the
// model says none.
carnot_status* carnot_recurrent_run(carnot_call* call, int64_t gates, const char* const* defaults,
                                    int count, carnot_recurrent_step step,
                                    const void* context) CARNOT_MUST_USE;

// out[j] += sum_k h[k] * R[from*H + j, k] for j < |count|*H, plus Rb where there is a bias.
void carnot_recurrent_project(const carnot_recurrent* r, int direction, int64_t from, int64_t count,
                              const double* h, double* out);
// Clips and applies activation |which| to |count| numbers in place.
void carnot_recurrent_activate(const carnot_recurrent* r, int direction, int which, double* v,
                               int64_t count);

#define CARNOT_RECURRENT_ATTRS                                                               \
  CARNOT_SPEC_LIST("activation_alpha", FLOATS), CARNOT_SPEC_LIST("activation_beta", FLOATS), \
      CARNOT_SPEC_LIST("activations", STRINGS), CARNOT_SPEC_FLOAT("clip", 0),                \
      CARNOT_SPEC_WORD("direction", "forward", "forward reverse bidirectional"),             \
      CARNOT_SPEC_INT("hidden_size", 0), CARNOT_SPEC_INT("layout", 0)

#endif  // CARNOT_OPS_RECURRENT_H_
