// Memory from the system, a page at least.
#ifndef CARNOT_BASE_PAGES_H_
#define CARNOT_BASE_PAGES_H_

#include <stddef.h>

enum { CARNOT_HUGE_PAGE = 2 << 20 };  // bytes, on most processors

// |bytes| rounded up to whole pages.
size_t carnot_whole_pages(size_t bytes);
// New zeroed memory of |bytes|, whole pages, at an address that huge pages may begin at; NULL:
// none. |protection| and |flags| as for mmap(2). To be given back by munmap.
void* carnot_map_aligned(size_t bytes, int protection, int flags);

#endif  // CARNOT_BASE_PAGES_H_
