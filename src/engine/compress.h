// Compression of an engine's metadata, whose texts repeat themselves: sequences of literals and of
// copies from up to 65,535 bytes before. Decompression is a loop of copies, at gigabytes a second.
//
// A sequence is one byte with two counts of four bits, the literals and the copied bytes less 4; a
// count of 15 goes on in bytes that are added to it, the last of them below 255; the literals; the
// distance of the copy in two bytes, 0 for none. The bytes of the second count come last.
#ifndef CARNOT_ENGINE_COMPRESS_H_
#define CARNOT_ENGINE_COMPRESS_H_

#include <stdint.h>

#include "base/status.h"

// Entries of the table that compression works with.
enum { CARNOT_COMPRESS_TABLE = 1 << 15 };

// The most bytes that |size| become.
static inline size_t carnot_compress_bound(size_t size) { return size + size / 255 + 16; }

// |size| bytes of |data|, less than 4 GB, to |out| with room for the bound; returns how many bytes
// were written. What is written depends on the data alone. Results behind one another decompress to
// the data behind one another.
size_t carnot_compress(const void* data, size_t size, uint32_t* table, void* out);

// |size| bytes that may come from an enemy to exactly |out_size|. INVALID_MODEL.
carnot_status* carnot_decompress(const void* data, size_t size, void* out,
                                 size_t out_size) CARNOT_MUST_USE;

#endif  // CARNOT_ENGINE_COMPRESS_H_
