// Values that are more than a tensor of numbers: text, sequences, optionals. For models with such
// inputs and outputs; plain tensors go by carnot_context_set_input.
//
// A carnot_data is a tensor, a sequence of data or an optional. The creator owns what it creates,
// which borrows what it was made from, numbers and items alike, until it is destroyed; data
// returned by a context belongs to it and lives until its next run. One thread at a time.
#ifndef CARNOT_DATA_H_
#define CARNOT_DATA_H_

#include "carnot/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct carnot_rt_value carnot_data;

// ---- making ----

// Dense, row-major numbers at |data|. INVALID_ARGUMENT for text and for dimensions below 0.
CARNOT_API carnot_status* carnot_data_create_tensor(carnot_dtype dtype, const carnot_dims* dims,
                                                    const void* data,
                                                    carnot_data** out_data) CARNOT_MUST_USE;
// Text: |texts| [product of dims], UTF-8; |sizes| in bytes, NULL: each ends with 0. The list is
// copied, the text is not.
CARNOT_API carnot_status* carnot_data_create_text(const carnot_dims* dims, const char* const* texts,
                                                  const size_t* sizes,
                                                  carnot_data** out_data) CARNOT_MUST_USE;
// |items| [count]; the list is copied, its items are not.
CARNOT_API carnot_status* carnot_data_create_sequence(const carnot_data* const* items, size_t count,
                                                      carnot_data** out_data) CARNOT_MUST_USE;
// |item| NULL: an empty optional.
CARNOT_API carnot_status* carnot_data_create_optional(const carnot_data* item,
                                                      carnot_data** out_data) CARNOT_MUST_USE;
// NULL is allowed.
CARNOT_API void carnot_data_destroy(carnot_data* data);

// ---- reading ----

// The kind of |data|, which may not be NULL.
CARNOT_API carnot_data_kind carnot_data_kind_of(const carnot_data* data);
// INVALID where |data| is no tensor.
CARNOT_API carnot_dtype carnot_data_dtype(const carnot_data* data);
// rank -1 where |data| is no tensor.
CARNOT_API carnot_dims carnot_data_dims(const carnot_data* data);
// NULL where |data| is no tensor of numbers, or an empty one.
CARNOT_API const void* carnot_data_numbers(const carnot_data* data);
// Text |index| of a tensor of text; NULL past the last. It does not end with 0: *out_size in bytes.
CARNOT_API const char* carnot_data_text(const carnot_data* data, size_t index, size_t* out_size);
// Items of a sequence or an optional; NULL past the last.
CARNOT_API size_t carnot_data_item_count(const carnot_data* data);
// Item |index|; it belongs to |data|. NULL past the last.
CARNOT_API const carnot_data* carnot_data_item(const carnot_data* data, size_t index);

// ---- elements of any type ----

// Element |index| of packed, row-major storage at |data| as a number; types under 8 bits and the
// small floating types are converted. 0 for text. Any thread.
CARNOT_API double carnot_element_f64(carnot_dtype dtype, const void* data, size_t index);
// The same as an integer; floating values are truncated.
CARNOT_API int64_t carnot_element_i64(carnot_dtype dtype, const void* data, size_t index);
// Floating types round to nearest even and overflow as their format does; integers saturate from
// f64 (NaN gives 0) and keep the low bits of i64; bool is value != 0. Nothing for text.
CARNOT_API void carnot_element_set_f64(carnot_dtype dtype, void* data, size_t index, double value);
// The same from an integer.
CARNOT_API void carnot_element_set_i64(carnot_dtype dtype, void* data, size_t index, int64_t value);

// ---- with contexts ----

// Borrows |data| until the run is over; for an input of another format than row-major it is copied
// now. INVALID_ARGUMENT names the kind, type or dimension that
// does not fit.
CARNOT_API carnot_status* carnot_context_set_input_value(carnot_context* context, const char* name,
                                                         const carnot_data* data) CARNOT_MUST_USE;
// Output |name| of the last run, row-major in any case; it belongs to the context and is valid
// until its next run. NOT_FOUND lists the names that exist.
CARNOT_API carnot_status* carnot_context_output_value(const carnot_context* context,
                                                      const char* name,
                                                      const carnot_data** out_data) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_DATA_H_
