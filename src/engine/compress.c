// Lempel-Ziv compression: the last place of each four bytes is remembered.
#include "engine/compress.h"

#include <stdbool.h>
#include <string.h>

enum { kLeastCopy = 4, kMostDistance = 65535, kCount = 15, kMore = 255 };

static uint32_t four_bytes(const uint8_t* p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

static uint32_t slot_of(uint32_t bytes) {
  return (uint32_t)(bytes * 2654435761u) >> 17;  // 15 bits
}

static uint8_t* put_count(uint8_t* out, size_t count) {
  if (count < kCount) return out;
  for (count -= kCount; count >= kMore; count -= kMore) *out++ = kMore;
  *out++ = (uint8_t)count;
  return out;
}

// |copied| is 0 where nothing is copied.
static uint8_t* put_sequence(uint8_t* out, const uint8_t* literals, size_t count, size_t distance,
                             size_t copied) {
  const size_t more = copied ? copied - kLeastCopy : 0;
  *out++ = (uint8_t)((count < kCount ? count : kCount) << 4 | (more < kCount ? more : kCount));
  out = put_count(out, count);
  memcpy(out, literals, count);
  out += count;
  *out++ = (uint8_t)distance;
  *out++ = (uint8_t)(distance >> 8);
  return put_count(out, more);
}

size_t carnot_compress(const void* data, size_t size, uint32_t* table, void* out) {
  const uint8_t* p = data;
  uint8_t* to = out;
  size_t at = 0, first = 0;  // |first| literal that is not written
  memset(table, 0, CARNOT_COMPRESS_TABLE * sizeof *table);
  while (at + kLeastCopy <= size) {
    const uint32_t bytes = four_bytes(p + at), slot = slot_of(bytes);
    const size_t found = table[slot];  // behind the place
    table[slot] = (uint32_t)at + 1;
    if (!found || at + 1 - found > kMostDistance || four_bytes(p + found - 1) != bytes) {
      at++;
      continue;
    }
    const size_t distance = at + 1 - found;
    size_t copied = kLeastCopy;
    while (at + copied < size && p[at + copied] == p[at + copied - distance]) copied++;
    to = put_sequence(to, p + first, at - first, distance, copied);
    first = at += copied;
  }
  if (first < size) to = put_sequence(to, p + first, size - first, 0, 0);
  return (size_t)(to - (uint8_t*)out);
}

typedef struct source {
  const uint8_t *at, *end;
} source;

// A count whose first four bits are |bits|; false where the data end.
static bool take_count(source* s, size_t bits, size_t* out) {
  *out = bits;
  if (bits < kCount) return true;
  for (uint8_t more = kMore; more == kMore;) {
    if (s->at == s->end) return false;
    *out += more = *s->at++;
  }
  return true;
}

// One sequence to |out| behind |done| bytes; false where the data end or leave |out_size|.
static bool take_sequence(source* s, uint8_t* out, size_t out_size, size_t* done) {
  const uint8_t counts = *s->at++;
  size_t count, copied;
  if (!take_count(s, counts >> 4, &count) || count > out_size - *done ||
      (size_t)(s->end - s->at) < count + 2)
    return false;
  memcpy(out + *done, s->at, count);
  *done += count;
  s->at += count;
  const size_t distance = s->at[0] | (size_t)s->at[1] << 8;
  s->at += 2;
  if (!take_count(s, counts & kCount, &copied)) return false;
  if (!distance) return copied == 0;
  copied += kLeastCopy;
  if (distance > *done || copied > out_size - *done) return false;
  uint8_t* to = out + *done;
  if (distance >= copied)
    memcpy(to, to - distance, copied);
  else
    for (size_t i = 0; i < copied; i++) to[i] = to[i - distance];
  *done += copied;
  return true;
}

carnot_status* carnot_decompress(const void* data, size_t size, void* out, size_t out_size) {
  source s = {data, (const uint8_t*)data + size};
  size_t done = 0;
  while (s.at < s.end) {
    const size_t at = (size_t)(s.at - (const uint8_t*)data);
    CARNOT_CHECK(take_sequence(&s, out, out_size, &done), INVALID_MODEL,
                 "compressed metadata: the sequence at byte %zu of %zu is cut or leaves the %zu "
                 "bytes that it may make",
                 at, size, out_size);
  }
  CARNOT_CHECK(done == out_size, INVALID_MODEL, "compressed metadata make %zu bytes, must be %zu",
               done, out_size);
  return NULL;
}
