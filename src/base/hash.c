// 64-bit hashes (xxHash).
#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY  // for XXH3_state_t on the stack
#include <xxhash.h>

uint64_t carnot_hash(const void* data, size_t size, uint64_t seed) {
  return size ? XXH3_64bits_withSeed(data, size, seed) : seed;
}

uint64_t carnot_hash_pair(const void* a, size_t a_size, const void* b, size_t b_size,
                          uint64_t seed) {
  if (!b_size) return carnot_hash(a, a_size, seed);
  XXH3_state_t state;
  XXH3_64bits_reset_withSeed(&state, seed);
  if (a_size) XXH3_64bits_update(&state, a, a_size);
  XXH3_64bits_update(&state, b, b_size);
  return XXH3_64bits_digest(&state);
}
