// Fuzz target: any text as a calibration cache; what is read prints and reads again.
#include <stdint.h>
#include <stdlib.h>

#include "carnot/calibration.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carnot_ranges *ranges = NULL, *again = NULL;
  carnot_status_free(carnot_ranges_create(&ranges));
  carnot_status_free(carnot_ranges_create(&again));
  carnot_status* status = carnot_ranges_read(ranges, (const char*)data, size);
  char* text = NULL;
  size_t length = 0;
  if (!status) {
    status = carnot_ranges_print(ranges, CARNOT_CALIBRATION_MSE, &text, &length);
    if (!status) status = carnot_ranges_read(again, text, length);
    if (status || carnot_ranges_count(ranges) != carnot_ranges_count(again)) abort();
  }
  carnot_status_free(status);
  carnot_memory_free(text);
  carnot_ranges_destroy(ranges);
  carnot_ranges_destroy(again);
  return 0;
}
