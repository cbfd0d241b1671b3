// Loading a plan through a sealed memory file.
#ifndef CARNOT_TRITON_PLAN_FILE_H_
#define CARNOT_TRITON_PLAN_FILE_H_

#include "carnot/runtime.h"

// Copies the file at |path| into a memory file that nobody can write or cut afterwards (memfd with
// seals), maps that once and loads the engine from it, its weights verified. The user's file is
// read, never mapped: it may be overwritten, cut or removed at any time. The caller owns one
// reference; the memory goes with the last. IO when it cannot be read or changes its size
// meanwhile, INVALID_MODEL when it is damaged. Any thread.
carnot_status* carnot_triton_load_plan(const char* path,
                                       carnot_engine** out_engine) CARNOT_MUST_USE;

#endif  // CARNOT_TRITON_PLAN_FILE_H_
