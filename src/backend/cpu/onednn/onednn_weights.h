// Descriptions of the primitives of a step, and the header of its packed weights.
#ifndef CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_WEIGHTS_H_
#define CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_WEIGHTS_H_

#include "backend/cpu/onednn/onednn_step.h"

enum { CARNOT_ONEDNN_ALIGN = 64 };

// At the beginning of constant 0, before the weights of each column of parts.
typedef struct carnot_onednn_weights_header {
  int32_t version[3];  // of the library
  int32_t columns;
  uint64_t layout;  // hash of the layouts
  int64_t is_open;
  uint64_t zeros[4];
} carnot_onednn_weights_header;
_Static_assert((int)sizeof(carnot_onednn_weights_header) == (int)CARNOT_ONEDNN_ALIGN,
               "weights begin at an aligned address");

typedef struct carnot_onednn_descriptions {
  const carnot_onednn* library;
  onednn_primitive_desc* of[CARNOT_ONEDNN_MAX_PARTS];
  int64_t twin[CARNOT_ONEDNN_MAX_PARTS];  // the first part of the same shape, which owns it
  bool repacks[CARNOT_ONEDNN_MAX_PARTS];  // the part wants another layout than its column's
  onednn_primitive_desc* usual;           // of an open step: has the layout of column 0
  // By column: the layout of its packed weights, and where they begin in constant 0.
  const onednn_memory_desc* weights[CARNOT_ONEDNN_MAX_PARTS];
  size_t weights_at[CARNOT_ONEDNN_MAX_PARTS];
  carnot_onednn_weights_header header;
  size_t bytes;  // of constant 0
} carnot_onednn_descriptions;

// Describes the primitives of all parts; forget destroys them, also what is there after an error.
carnot_status* carnot_onednn_describe_parts(const carnot_onednn_parts* parts,
                                            carnot_onednn_descriptions* out) CARNOT_MUST_USE;
void carnot_onednn_forget(const carnot_onednn_parts* parts, carnot_onednn_descriptions* d);

#endif  // CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_WEIGHTS_H_
