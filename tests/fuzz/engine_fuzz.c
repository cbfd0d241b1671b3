// Fuzz target: any bytes as an engine file with corrected checksums; an accepted engine runs.
#include <stdlib.h>
#include <string.h>

#include "../integration/mutation.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint8_t* copy = malloc(size + 1);
  if (!copy) return 0;
  memcpy(copy, data, size);
  mutation_fix_hashes(copy, size);
  mutation_try(copy, size);
  free(copy);
  return 0;
}
