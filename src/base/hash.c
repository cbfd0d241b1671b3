// 64-bit hashes (xxHash).
#include "base/hash.h"

#include <xxhash.h>

uint64_t carnot_hash(const void* data, size_t size, uint64_t seed) {
  return size ? XXH3_64bits_withSeed(data, size, seed) : seed;
}
