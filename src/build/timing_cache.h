// The timing cache: what tactics took, by problem. Documented text, so that it can be read, merged and carried along:
//   carnot-timing-cache 1
//   <problem, 16 hex digits> <tactic> <nanoseconds>
// Lines are sorted. A problem's key covers its operators, attributes, operands, ISA, threads and format version; a build
// that finds all its candidates here times nothing and gives the same bytes. One thread at a time.
#ifndef CARNOT_BUILD_TIMING_CACHE_H_
#define CARNOT_BUILD_TIMING_CACHE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct carnot_timing_cache carnot_timing_cache;

carnot_status* carnot_timing_cache_create(carnot_timing_cache** out_cache) CARNOT_MUST_USE;
void carnot_timing_cache_destroy(carnot_timing_cache* cache);
// Reads the text form; INVALID_MODEL names the line. Entries that are there already stay.
carnot_status* carnot_timing_cache_read(carnot_timing_cache* cache, const char* text, size_t size) CARNOT_MUST_USE;
// A missing file is an empty cache.
carnot_status* carnot_timing_cache_load(carnot_timing_cache* cache, const char* path) CARNOT_MUST_USE;
carnot_status* carnot_timing_cache_save(carnot_timing_cache* cache, const char* path) CARNOT_MUST_USE;
// The text; the caller frees it.
carnot_status* carnot_timing_cache_print(carnot_timing_cache* cache, char** out_text, size_t* out_size) CARNOT_MUST_USE;

bool carnot_timing_cache_find(const carnot_timing_cache* cache, uint64_t key, const char* tactic, uint64_t* out_ns);
carnot_status* carnot_timing_cache_add(carnot_timing_cache* cache, uint64_t key, const char* tactic, uint64_t ns) CARNOT_MUST_USE;
size_t carnot_timing_cache_count(const carnot_timing_cache* cache);

#endif  // CARNOT_BUILD_TIMING_CACHE_H_
