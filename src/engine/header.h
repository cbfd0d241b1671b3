// The engine file's outermost layer.
#ifndef CARNOT_ENGINE_HEADER_H_
#define CARNOT_ENGINE_HEADER_H_

#include <stdint.h>

#define CARNOT_ENGINE_MAGIC "CARNOT\x1a\n"

enum { CARNOT_PAGE_BYTES = 4096, CARNOT_BLOB_ALIGNMENT = 64 };

typedef struct carnot_section {
  uint64_t offset, bytes, hash;  // of the weights the hash is 0: each blob has its own
} carnot_section;

typedef struct carnot_header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t file_bytes;
  carnot_section metadata, weights;
  uint64_t metadata_bytes;  // when decompressed; those of the section: not compressed
  uint64_t hash;            // of all bytes before it
} carnot_header;

#endif  // CARNOT_ENGINE_HEADER_H_
