// The codecs module for operators and commands.
#ifndef CARNOT_OPS_CODECS_H_
#define CARNOT_OPS_CODECS_H_

#include "base/status.h"
#include "codecs/codecs.h"

// Opens libcarnot_codecs.so the first time. NOT_FOUND where it is missing, VERSION_MISMATCH for a
// module of another build. Any thread.
carnot_status* carnot_codecs_open(const carnot_codecs** out_codecs) CARNOT_MUST_USE;

#endif  // CARNOT_OPS_CODECS_H_
