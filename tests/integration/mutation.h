// Loads and runs untrusted engine bytes, for the mutation test and the fuzz target.
#ifndef CARNOT_TESTS_MUTATION_H_
#define CARNOT_TESTS_MUTATION_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Corrects the header's checksums and length, so that changes after them reach the reader.
void mutation_fix_hashes(uint8_t* data, size_t size);
// Replaces an engine in memory of malloc by one with plain metadata.
void mutation_decompress(void** data, size_t* size);
// Loads, makes a context with little memory, sets every input to small numbers and runs, with a
// limit on time. True when the run was without error. Sizes that a tensor would need are bounded by
// 1 MiB.
bool mutation_try(const uint8_t* data, size_t size);

#endif  // CARNOT_TESTS_MUTATION_H_
