// Parts of variables.
#include "import/tensorflow/bundle_slice.h"

#include <string.h>

#include "import/pb/pb.h"

// ---- text ----

// Takes the decimal number off the front of |text|; false where there is none.
static bool take_number(carnot_strview* text, int64_t* out) {
  int64_t value = 0;
  size_t at = 0;
  for (; at < text->size && at < 18 && text->data[at] >= '0' && text->data[at] <= '9'; at++)
    value = value * 10 + (text->data[at] - '0');
  *text = (carnot_strview){text->data + at, text->size - at};
  *out = value;
  return at > 0;
}

static bool take_char(carnot_strview* text, char c) {
  if (!text->size || text->data[0] != c) return false;
  *text = (carnot_strview){text->data + 1, text->size - 1};
  return true;
}

static bool read_extents(carnot_strview* text, tf_slice* out) {
  do {
    if (out->rank == CARNOT_MAX_RANK) return false;
    int64_t *start = &out->start[out->rank], *size = &out->size[out->rank];
    *start = 0, *size = -1;
    out->rank++;
    if (take_char(text, '-')) continue;
    if (!take_number(text, start) || !take_char(text, ',') || !take_number(text, size))
      return false;
  } while (take_char(text, ':'));
  return text->size == 0;
}

carnot_status* tf_slice_read_text(carnot_strview text, tf_slice* out) {
  const carnot_strview whole = text;
  int rank = 0;
  int64_t dim;
  *out = (tf_slice){.rank = 0};
  // Dimensions end with a blank each; the rest is the part.
  for (carnot_strview rest = text; take_number(&rest, &dim) && take_char(&rest, ' ');) {
    text = rest;
    rank++;
  }
  CARNOT_CHECK(read_extents(&text, out) && out->rank == rank, INVALID_MODEL,
               "\"" CARNOT_VIEW_FMT "\" is no part of a variable", CARNOT_VIEW_ARG(whole));
  return NULL;
}

// ---- wire ----

typedef struct extent {
  uint64_t present;
  int64_t start, length;
} extent;
enum { kHasLength = 2 };
static const carnot_pb_field kExtent[] = {CARNOT_PB_ONE(extent, start, 1, INT),
                                          CARNOT_PB_ONE(extent, length, 2, INT)};
static const carnot_pb_message kExtentMessage = {"TensorSliceProto.Extent",
                                                 sizeof(extent),
                                                 kExtent,
                                                 sizeof(kExtent) / sizeof(kExtent[0]),
                                                 NULL,
                                                 NULL};
typedef struct slice_proto {
  uint64_t present;
  CARNOT_PB_LIST(extent) extent;
} slice_proto;
static const carnot_pb_field kSlice[] = {CARNOT_PB_SUBS(slice_proto, extent, 1, &kExtentMessage)};
static const carnot_pb_message kSliceMessage = {"TensorSliceProto",
                                                sizeof(slice_proto),
                                                kSlice,
                                                sizeof(kSlice) / sizeof(kSlice[0]),
                                                NULL,
                                                NULL};

carnot_status* tf_slice_read_wire(carnot_strview bytes, carnot_arena* arena, tf_slice* out) {
  slice_proto proto = {0};
  CARNOT_TRY(carnot_pb_read_wire(&kSliceMessage, bytes.data, bytes.size, arena, &proto));
  CARNOT_CHECK(proto.extent.count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "a part of %zu dimensions; at most %d are supported", proto.extent.count,
               CARNOT_MAX_RANK);
  *out = (tf_slice){.rank = (int)proto.extent.count};
  for (int i = 0; i < out->rank; i++) {
    out->start[i] = proto.extent.items[i].start;
    out->size[i] = proto.extent.items[i].present & kHasLength ? proto.extent.items[i].length : -1;
  }
  return NULL;
}

// ---- keys: numbers and texts whose bytes compare as they do ----

typedef struct writer {
  char* at;
} writer;

static void put_number(writer* w, uint64_t value) {
  int bytes = 0;
  while (bytes < 8 && value >> (8 * bytes)) bytes++;
  *w->at++ = (char)bytes;
  for (int i = bytes - 1; i >= 0; i--) *w->at++ = (char)(value >> (8 * i));
}

static void put_text(writer* w, carnot_strview text) {
  for (size_t i = 0; i < text.size; i++) {
    const char c = text.data[i];
    *w->at++ = c;
    if (c == 0) *w->at++ = (char)0xff;
    if (c == (char)0xff) *w->at++ = 0;
  }
  *w->at++ = 0;
  *w->at++ = 1;
}

// The leading bits say the length: of |bytes|, |bytes| ones in front of a positive number.
static void put_signed(writer* w, int64_t value) {
  const uint64_t magnitude = value < 0 ? ~(uint64_t)value : (uint64_t)value;
  unsigned char text[10];
  int bits = 0;
  while (bits < 63 && magnitude >> bits) bits++;
  const int bytes = bits / 7 + 1;
  for (int i = 0; i < 10; i++) {
    const int shift = 8 * (9 - i);
    text[i] = shift < 64 ? (unsigned char)((uint64_t)value >> shift) : value < 0 ? 0xff : 0;
  }
  unsigned char* first = text + 10 - bytes;
  for (int i = 0; i < bytes; i++) first[i / 8] ^= (unsigned char)(0x80 >> i % 8);
  memcpy(w->at, first, (size_t)bytes);
  w->at += bytes;
}

carnot_strview tf_slice_key(carnot_strview name, const tf_slice* slice, carnot_arena* arena) {
  char* text = CARNOT_NEW_ARRAY(arena, char, 2 * name.size + 32 + 20 * (size_t)slice->rank);
  writer w = {text};
  if (!text || arena->failed) return (carnot_strview){NULL, 0};
  put_number(&w, 0);
  put_text(&w, name);
  put_number(&w, (uint64_t)slice->rank);
  for (int i = 0; i < slice->rank; i++) {
    put_signed(&w, slice->start[i]);
    put_signed(&w, slice->size[i]);
  }
  return (carnot_strview){text, (size_t)(w.at - text)};
}

// ---- elements ----

carnot_status* tf_slice_fit(tf_slice* slice, const int64_t* dims, int rank) {
  CARNOT_CHECK(slice->rank == rank, INVALID_MODEL, "a part of %d dimensions of a tensor of %d",
               slice->rank, rank);
  for (int i = 0; i < rank; i++) {
    if (slice->size[i] == -1 && slice->start[i] == 0) slice->size[i] = dims[i];
    CARNOT_CHECK(slice->start[i] >= 0 && slice->size[i] >= 0 && slice->start[i] <= dims[i] &&
                     slice->size[i] <= dims[i] - slice->start[i],
                 INVALID_MODEL, "a part of %lld at %lld of dimension %d, which has %lld",
                 (long long)slice->size[i], (long long)slice->start[i], i, (long long)dims[i]);
  }
  return NULL;
}

bool tf_slice_equal(const tf_slice* a, const tf_slice* b) {
  const size_t bytes = (size_t)a->rank * sizeof(int64_t);
  return a->rank == b->rank && memcmp(a->start, b->start, bytes) == 0 &&
         memcmp(a->size, b->size, bytes) == 0;
}

// The position of the element |at| of the whole tensor in a part.
static size_t position(const tf_slice* s, const int64_t* at) {
  size_t index = 0;
  for (int i = 0; i < s->rank; i++)
    index = index * (size_t)s->size[i] + (size_t)(at[i] - s->start[i]);
  return index;
}

int64_t tf_slice_copy(const tf_slice* from, const char* src, const tf_slice* to, char* dst,
                      size_t item) {
  int64_t first[CARNOT_MAX_RANK], end[CARNOT_MAX_RANK], at[CARNOT_MAX_RANK], copied = 0;
  const int rank = from->rank, last = rank - 1;
  if (rank == 0) {
    memcpy(dst, src, item);
    return 1;
  }
  for (int i = 0; i < rank; i++) {
    const int64_t from_end = from->start[i] + from->size[i], to_end = to->start[i] + to->size[i];
    at[i] = first[i] = from->start[i] > to->start[i] ? from->start[i] : to->start[i];
    end[i] = from_end < to_end ? from_end : to_end;
    if (first[i] >= end[i]) return 0;
  }
  const int64_t run = end[last] - first[last];
  for (;;) {
    memcpy(dst + position(to, at) * item, src + position(from, at) * item, (size_t)run * item);
    copied += run;
    int axis = last - 1;
    while (axis >= 0 && ++at[axis] == end[axis]) at[axis] = first[axis], axis--;
    if (axis < 0) return copied;
  }
}
