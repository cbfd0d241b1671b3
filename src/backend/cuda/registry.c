// The tactics of the CUDA backend, fastest first within an operator (tactics.def).
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/common/generic.h"
#include "backend/cuda/common/tactic.h"
#include "backend/cuda/driver/kernels.h"

#define TACTIC(name) extern const carnot_tactic carnot_cuda_##name;
#include "backend/cuda/tactics.def"

static const carnot_tactic* const kTactics[] = {
#define TACTIC(name) &carnot_cuda_##name,
#include "backend/cuda/tactics.def"
};

enum { kTacticCount = sizeof(kTactics) / sizeof(kTactics[0]) };
static const carnot_tactic* g_tactics[kTacticCount];
static size_t g_tactic_count;

// |name| begins with one of the texts of |list|, which commas part. A text that ends in '$'
// is a whole name.
static bool is_in(const char* name, const char* list) {
  for (const char* at = list; *at; at += strcspn(at, ","), at += *at == ',') {
    size_t length = strcspn(at, ",");
    const bool is_whole = length && at[length - 1] == '$';
    length -= is_whole;
    if (strncmp(name, at, length) == 0 && (!is_whole || !name[length])) return true;
  }
  return false;
}

// For tests and for bisecting a wrong result. CARNOT_CUDA_TACTICS=NAME,NAME.. keeps the copies
// between host and device and the tactics whose names begin so ("copies": none; "generic": those of
// generic kernels); all else runs on the host. -NAME,NAME.. excludes such tactics.
static void choose_tactics(void) {
  const char* wanted = getenv("CARNOT_CUDA_TACTICS");
  for (size_t i = 0; i < kTacticCount; i++) {
    const carnot_tactic* tactic = kTactics[i];
    bool is_copy = tactic == &carnot_cuda_upload || tactic == &carnot_cuda_download ||
                   tactic == &carnot_cuda_reformat;
    bool in = !wanted ? true
              : wanted[0] == '-'
                  ? !is_in(tactic->name, wanted + 1)
                  : is_copy || is_in(tactic->name, wanted) ||
                        (tactic->run == carnot_cuda_generic_run && is_in("generic", wanted));
    if (in) g_tactics[g_tactic_count++] = tactic;
  }
}

const carnot_tactic* const* carnot_cuda_tactics(size_t* out_count) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, choose_tactics);
  *out_count = g_tactic_count;
  return g_tactics;
}
