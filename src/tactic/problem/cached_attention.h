// Attention with a cache: operator Attention and what decoders write around it, as one problem.
//   k, v = join(past, new);  y = softmax(softcap(scale q k^T) + mask) v
// with the rotary embedding of q and k, the transposes, reshapes and slices between projections and
// heads, and the cache: none, a past that the new rows follow, or TensorScatter into a buffer.
#ifndef CARNOT_TACTIC_PROBLEM_CACHED_ATTENTION_H_
#define CARNOT_TACTIC_PROBLEM_CACHED_ATTENTION_H_

#include "tactic/tactic.h"

typedef enum carnot_heads_layout {
  CARNOT_HEADS_FIRST,  // [B,heads,S,size]
  CARNOT_HEADS_LAST,   // [B,S,heads,size]
  CARNOT_HEADS_FLAT,   // [B,S,heads*size]
} carnot_heads_layout;

// Inputs and outputs are counted as the step's; -1: absent.
typedef struct carnot_cached_source {
  int32_t input;
  int32_t layout;                     // carnot_heads_layout
  int64_t first;                      // element of a row that head 0 begins at
  int32_t cosines, sines, positions;  // of the rotary embedding; cosines -1: none
  int32_t interleaved;
  int64_t turned;  // elements of a head that turn
} carnot_cached_source;

typedef enum carnot_cache_kind {
  CARNOT_CACHE_NONE,     // keys and values are the new ones
  CARNOT_CACHE_CONCAT,   // they follow those of past_k and past_v
  CARNOT_CACHE_SCATTER,  // they are written into past_k and past_v, which may become longer
} carnot_cache_kind;

typedef struct carnot_cached_attention_params {
  carnot_cached_source q, k, v;
  int64_t heads, kv_heads, size, value_size;
  int32_t cache;  // carnot_cache_kind
  int32_t past_k, past_v, write_indices;
  int32_t mask, lengths;
  int32_t starts_behind;  // without lengths the first query is at the place behind the past, not 0
  int32_t y, present_k, present_v;  // outputs
  int32_t y_layout;                 // carnot_heads_layout
  int32_t causal;
  int64_t left, right;  // windows; -1: none
  float scale, softcap;
} carnot_cached_attention_params;

// Reads a float32 region whose anchor is Attention: NULL, or why it is none.
const char* carnot_cached_attention_read(const carnot_problem* problem,
                                         carnot_cached_attention_params* out, char* reason,
                                         size_t size);
// validate: parameters of the right size whose inputs and outputs exist. INVALID_MODEL otherwise.
carnot_status* carnot_cached_attention_check(const carnot_step_view* step) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_PROBLEM_CACHED_ATTENTION_H_
