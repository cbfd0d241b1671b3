// A file that is used in place while a thread copies it.
//
// Reading a large file into memory takes longer than the first run that needs it: new pages are
// zeroed, and a virtual machine gets them from its host. A leased file is mapped instead, and a
// thread of its own, the keeper, copies what is read often into private memory with huge pages
// afterwards, piece by piece at the same addresses. Until then a read lease (fcntl(2), F_SETLEASE)
// keeps the bytes: who opens the file for writing, or cuts it, waits until the keeper has copied
// the rest and gives the lease back. So neither can a later change reach the reader.
#ifndef CARNOT_BASE_LEASED_FILE_H_
#define CARNOT_BASE_LEASED_FILE_H_

#include "base/file.h"

typedef struct carnot_lease carnot_lease;

// Maps the file at |path|. Where no lease can be had (a small file, one that somebody writes or
// that belongs to another user, a file system whose files change without this kernel's knowledge)
// the file is read as by carnot_read_file and *out_lease is NULL.
carnot_status* carnot_lease_file(const char* path, carnot_mapping* out_mapping,
                                 carnot_lease** out_lease) CARNOT_MUST_USE;
// The keeper shall copy bytes [begin, end) of the file. Before carnot_lease_copy.
void carnot_lease_want(carnot_lease* lease, size_t begin, size_t end);
// Lets the keeper begin; only the first call does anything. NULL is allowed. Any thread.
void carnot_lease_copy(carnot_lease* lease);
// The same, and waits until the copy is made. NULL is allowed. Any thread.
void carnot_lease_settle(carnot_lease* lease);
// Ends the keeper, before carnot_unmap. NULL is allowed.
void carnot_lease_end(carnot_lease* lease);

#endif  // CARNOT_BASE_LEASED_FILE_H_
