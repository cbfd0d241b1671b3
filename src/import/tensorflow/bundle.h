// TensorFlow's tensor bundle: variables by key, PREFIX.index with a sorted table of where they lie
// in PREFIX.data-NNNNN-of-NNNNN.
#ifndef CARNOT_IMPORT_TENSORFLOW_BUNDLE_H_
#define CARNOT_IMPORT_TENSORFLOW_BUNDLE_H_

#include "import/common/files.h"
#include "import/common/name_map.h"
#include "ir/tensor.h"

// Zero-initialised is an empty bundle. One thread at a time.
typedef struct tf_bundle {
  import_files* files;
  carnot_arena* arena;
  const char* prefix;       // of the files' names, relative to the model's folder
  import_name_map entries;  // by key
  int64_t shard_count;
  bool is_verified;     // the checksum of each tensor read is computed
  size_t key_bytes;     // that keys may still take
  size_t joined_bytes;  // of variables that were put together
} tf_bundle;

// Reads PREFIX.index below the folder of |files|. Borrows |files|, |arena| and |prefix|.
carnot_status* tf_bundle_open(tf_bundle* bundle, import_files* files, carnot_arena* arena,
                              const char* prefix) CARNOT_MUST_USE;
// The same for an index in memory; |bundle|->arena is set.
carnot_status* tf_bundle_read_index(tf_bundle* bundle, carnot_strview bytes) CARNOT_MUST_USE;
bool tf_bundle_has(const tf_bundle* bundle, carnot_strview key);
// The tensor of |key|, or the part |slice| of it (bundle_slice.h; empty: all). Its elements are
// those of the mapped shard; they are copied where the bundle keeps them in other parts.
// INVALID_MODEL where the shard is too short or sizes disagree, IO where it is not there.
carnot_status* tf_bundle_tensor(tf_bundle* bundle, carnot_strview key, carnot_strview slice,
                                carnot_arena* arena, carnot_tensor* out_tensor) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_BUNDLE_H_
