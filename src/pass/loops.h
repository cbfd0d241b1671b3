// Loops as pass `simplify_loops` sees them: what changes from one iteration to the next, and how
// often the body runs.
#ifndef CARNOT_PASS_LOOPS_H_
#define CARNOT_PASS_LOOPS_H_

#include "pass/emit.h"

// A LOOP node. Parameters of the body: iteration, condition, |carried| values, what it reads.
typedef struct carnot_loop {
  carnot_node* node;
  carnot_block* body;
  int carried;
  bool refit;  // constants that have names may change later
} carnot_loop;

// |node| is a LOOP.
carnot_loop carnot_loop_of(carnot_node* node);
// |value| is the same in every iteration: a constant, or a parameter that the body does not change.
bool carnot_loop_keeps(const carnot_loop* loop, const carnot_value* value);
// The value around the loop that an unchanging |value| of the body is. A constant is copied.
carnot_value* carnot_loop_outer(const carnot_loop* loop, const carnot_value* value);
// Carried value |k| is an integer that starts at the constant *out_first and grows by one.
bool carnot_loop_counts(const carnot_loop* loop, int k, int64_t* out_first);
// |value| of the body is the number of the iteration, from 0: a counter, cast or reshaped.
bool carnot_loop_is_iteration(const carnot_loop* loop, const carnot_value* value);
// The number of iterations, an int64 scalar, where it is known before the loop begins; nodes that
// compute it are emitted. NULL where it is not known.
carnot_value* carnot_loop_trips(const carnot_loop* loop, carnot_emitter* e);

// Rewrites a loop of known length: values that do not change are read, counters are the iteration,
// lists of one element an iteration are stacked results, unchanging nodes move out. *out_node is
// the loop that took its place, or |node|; NULL where no value that changes is left.
carnot_status* carnot_loop_simplify(carnot_node* node, carnot_node** out_node) CARNOT_MUST_USE;
// Puts LSTM, GRU or RNN in place of a simplified loop over one of their cells. *out_done: it did;
// |node| is gone then. |refit|: as in carnot_pass_options.
carnot_status* carnot_loop_fuse_recurrent(carnot_node* node, bool refit,
                                          bool* out_done) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_LOOPS_H_
