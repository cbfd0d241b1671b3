// Checksums and hashes: xxHash.
#ifndef CARNOT_BASE_HASH_H_
#define CARNOT_BASE_HASH_H_

#include <stddef.h>
#include <stdint.h>

uint64_t carnot_hash(const void* data, size_t size, uint64_t seed);
// The hash of |a| followed by |b|: that of their bytes in one piece.
uint64_t carnot_hash_pair(const void* a, size_t a_size, const void* b, size_t b_size,
                          uint64_t seed);

#endif  // CARNOT_BASE_HASH_H_
