// A sorted table of keys and values as LevelDB writes it, which TensorFlow keeps the index of its
// variables in.
#ifndef CARNOT_IMPORT_TENSORFLOW_SORTED_TABLE_H_
#define CARNOT_IMPORT_TENSORFLOW_SORTED_TABLE_H_

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strview.h"

// Gets each entry in turn; |key| lives for the call only, |value| as long as the table.
typedef carnot_status* (*tf_table_visit)(void* context, carnot_strview key, carnot_strview value);

// The checksum of LevelDB and of tensor bundles: CRC-32C, rotated and offset, so that a checksum of
// checksums differs.
uint32_t tf_masked_checksum(const void* data, size_t size);

// Calls |visit| with every entry of the table at |bytes| in order; the first error ends it.
// INVALID_MODEL, with the offset, where the bytes break the format or a checksum differs;
// UNSUPPORTED for compressed blocks. Any thread.
carnot_status* tf_table_each(carnot_strview bytes, tf_table_visit visit,
                             void* context) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_SORTED_TABLE_H_
