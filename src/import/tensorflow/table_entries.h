// Keys and values of a table: in a vocabulary file, and sorted.
#ifndef CARNOT_IMPORT_TENSORFLOW_TABLE_ENTRIES_H_
#define CARNOT_IMPORT_TENSORFLOW_TABLE_ENTRIES_H_

#include "import/tensorflow/importer.h"

enum { TF_WHOLE_LINE = -2, TF_LINE_NUMBER = -1 };

// How the lines of a file are read. A column counts from 0, or is one of TF_….
typedef struct tf_vocabulary {
  int64_t key_column, value_column;
  int64_t size;    // lines that are read; -1: all
  int64_t offset;  // lines at the beginning that are left out
  char delimiter;
  carnot_dtype key_type, value_type;  // text, integers or floating point
} tf_vocabulary;

// Keys and values of the text at |bytes|, in the order of its lines, in |arena|; text is borrowed.
// INVALID_MODEL names the line where a column is missing or holds no number.
carnot_status* tf_vocabulary_read(carnot_strview bytes, const tf_vocabulary* form,
                                  carnot_arena* arena, carnot_tensor* out_keys,
                                  carnot_tensor* out_values) CARNOT_MUST_USE;

// The same entries in ascending order of keys, integers or text, each key once, as lists in
// |arena|. INVALID_MODEL where a key has two values or there are not as many values as keys.
carnot_status* tf_entries_sort(const carnot_tensor* keys, const carnot_tensor* values,
                               carnot_arena* arena, carnot_tensor* out_keys,
                               carnot_tensor* out_values) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_TABLE_ENTRIES_H_
