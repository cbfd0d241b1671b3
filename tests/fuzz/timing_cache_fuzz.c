// Fuzz target: any text as a timing cache; what is read prints and reads again.
#include <stdint.h>
#include <stdlib.h>

#include "builder/measure/timing_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carnot_timing_cache *cache = NULL, *again = NULL;
  carnot_status_free(carnot_timing_cache_create(&cache));
  carnot_status_free(carnot_timing_cache_create(&again));
  carnot_status* status = carnot_timing_cache_read(cache, (const char*)data, size);
  char* text = NULL;
  size_t length = 0;
  if (!status) {
    status = carnot_timing_cache_print(cache, &text, &length);
    if (!status) status = carnot_timing_cache_read(again, text, length);
    if (status || carnot_timing_cache_count(cache) != carnot_timing_cache_count(again)) abort();
  }
  carnot_status_free(status);
  free(text);
  carnot_timing_cache_destroy(cache);
  carnot_timing_cache_destroy(again);
  return 0;
}
