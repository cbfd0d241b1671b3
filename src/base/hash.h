// Checksums and hashes: xxHash.
#ifndef CARNOT_BASE_HASH_H_
#define CARNOT_BASE_HASH_H_

#include <stddef.h>
#include <stdint.h>

uint64_t carnot_hash(const void* data, size_t size, uint64_t seed);

#endif  // CARNOT_BASE_HASH_H_
