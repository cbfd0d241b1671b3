// Reads LevelDB's table format: blocks of entries whose keys share prefixes, an index block with
// the place of every block, a footer. Source: LevelDB, doc/table_format.md.
#include "import/tensorflow/sorted_table.h"

#include <stdbool.h>
#include <string.h>

enum {
  kFooter = 48,  // two places, padding, the magic number
  kTrailer = 5,  // of a block: the kind of compression, the checksum
  kMostKey = 4096
};
#define MAGIC 0xdb4775248b80fb57u

typedef struct cursor {
  const uint8_t *at, *end;
} cursor;

typedef struct place {
  uint64_t offset, size;
} place;

static bool read_varint(cursor* c, uint64_t* out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && c->at < c->end; shift += 7) {
    const uint8_t byte = *c->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out = value;
      return true;
    }
  }
  return false;
}

static uint32_t read_u32(const uint8_t* at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static bool read_place(cursor* c, place* out) {
  return read_varint(c, &out->offset) && read_varint(c, &out->size);
}

uint32_t tf_masked_checksum(const void* data, size_t size) {
  const uint8_t* bytes = data;
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static carnot_status* find_block(carnot_strview table, place p, carnot_strview* out) {
  CARNOT_CHECK(p.offset <= table.size && p.size <= table.size - p.offset &&
                   table.size - p.offset - p.size >= kTrailer,
               INVALID_MODEL, "a block at %llu of %llu bytes in a table of %zu bytes",
               (unsigned long long)p.offset, (unsigned long long)p.size, table.size);
  const uint8_t* bytes = (const uint8_t*)table.data + p.offset;
  CARNOT_CHECK(bytes[p.size] == 0, UNSUPPORTED, "the block at %llu is compressed (%d)",
               (unsigned long long)p.offset, bytes[p.size]);
  CARNOT_CHECK(tf_masked_checksum(bytes, p.size + 1) == read_u32(bytes + p.size + 1), INVALID_MODEL,
               "the checksum of the block at %llu differs", (unsigned long long)p.offset);
  *out = (carnot_strview){(const char*)bytes, (size_t)p.size};
  return NULL;
}

// The entries of a block lie before a list of places where a key begins anew.
static carnot_status* each_in_block(carnot_strview block, tf_table_visit visit, void* context) {
  const uint8_t* bytes = (const uint8_t*)block.data;
  char key[kMostKey];
  uint64_t key_size = 0, restarts = block.size >= 4 ? read_u32(bytes + block.size - 4) : 0;
  CARNOT_CHECK(block.size >= 4 && restarts <= (block.size - 4) / 4, INVALID_MODEL,
               "a block of %zu bytes with %llu restarts", block.size, (unsigned long long)restarts);
  cursor c = {bytes, bytes + block.size - 4 - 4 * restarts};
  while (c.at < c.end) {
    uint64_t shared, own, value;
    const bool whole = read_varint(&c, &shared) && read_varint(&c, &own) && read_varint(&c, &value);
    const uint64_t left = (uint64_t)(c.end - c.at);
    CARNOT_CHECK(whole && shared <= key_size && own <= left && value <= left - own, INVALID_MODEL,
                 "the entry at byte %zu of a block goes beyond it", (size_t)(c.at - bytes));
    CARNOT_CHECK(shared + own <= kMostKey, OUT_OF_RANGE, "a key of %llu bytes; at most %d",
                 (unsigned long long)(shared + own), kMostKey);
    memcpy(key + shared, c.at, (size_t)own);
    key_size = shared + own;
    CARNOT_TRY(visit(context, (carnot_strview){key, (size_t)key_size},
                     (carnot_strview){(const char*)c.at + own, (size_t)value}));
    c.at += own + value;
  }
  return NULL;
}

typedef struct index_walk {
  carnot_strview table;
  uint64_t end;  // of the blocks so far: a block that came twice could make a small file endless
  tf_table_visit visit;
  void* context;
} index_walk;

static carnot_status* visit_block(void* context, carnot_strview key, carnot_strview value) {
  index_walk* walk = context;
  cursor c = {(const uint8_t*)value.data, (const uint8_t*)value.data + value.size};
  place p;
  carnot_strview block;
  (void)key;
  CARNOT_CHECK(read_place(&c, &p), INVALID_MODEL, "an entry of the index is no place of a block");
  CARNOT_CHECK(p.offset >= walk->end, INVALID_MODEL, "the block at %llu is not behind that before",
               (unsigned long long)p.offset);
  CARNOT_TRY(find_block(walk->table, p, &block));
  walk->end = p.offset + p.size;
  return each_in_block(block, walk->visit, walk->context);
}

carnot_status* tf_table_each(carnot_strview bytes, tf_table_visit visit, void* context) {
  CARNOT_CHECK(bytes.size >= kFooter, INVALID_MODEL, "%zu bytes; a table has %d at least",
               bytes.size, kFooter);
  const uint8_t* footer = (const uint8_t*)bytes.data + bytes.size - kFooter;
  const uint64_t magic = read_u32(footer + 40) | (uint64_t)read_u32(footer + 44) << 32;
  CARNOT_CHECK(magic == MAGIC, INVALID_MODEL, "no sorted table: it ends with %016llx",
               (unsigned long long)magic);
  cursor c = {footer, footer + 40};
  place meta, index;
  carnot_strview block;
  CARNOT_CHECK(read_place(&c, &meta) && read_place(&c, &index), INVALID_MODEL,
               "the footer names no index");
  CARNOT_TRY_AT(find_block(bytes, index, &block), "the index of blocks");
  index_walk walk = {.table = bytes, .visit = visit, .context = context};
  return each_in_block(block, visit_block, &walk);
}
