// Memory from the system, a page at least.
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"

size_t carnot_whole_pages(size_t bytes) {
  return carnot_align_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
}

void* carnot_map_aligned(size_t bytes, int protection, int flags) {
  char* all =
      mmap(NULL, bytes + CARNOT_HUGE_PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (all == MAP_FAILED) return NULL;
  char* at = (char*)carnot_align_up((uintptr_t)all, CARNOT_HUGE_PAGE);
  const size_t before = (size_t)(at - all);
  if (before) munmap(all, before);
  munmap(at + bytes, CARNOT_HUGE_PAGE - before);
  return at;
}
