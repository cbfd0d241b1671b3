// Memory that a model's weights are read from: mapped files and aligned copies.
#include "base/source_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/pages.h"

enum { kAlignment = 64 };
enum { kSmallSlabs = 24 };  // before the first of a huge page
static const size_t kSmallSlab = (size_t)1 << 20;

void carnot_source_memory_deinit(carnot_source_memory* memory) {
  for (size_t i = 0; i < memory->slab_count; i++) {
    munmap(memory->slabs[i].data, memory->slabs[i].size);
    free(memory->slabs[i].copies);
  }
  free(memory->slabs);
  free(memory->maps);
  *memory = (carnot_source_memory){0};
}

carnot_status* carnot_source_memory_add_map(carnot_source_memory* memory, void* data, size_t size) {
  void* maps = memory->maps;
  CARNOT_TRY(carnot_grow(&maps, &memory->map_capacity, memory->map_count + 1, sizeof(*memory->maps),
                         "the list of mapped files"));
  memory->maps = maps;
  memory->maps[memory->map_count++] = (carnot_source_map){data, size};
  memory->map_bytes += size;
  return NULL;
}

bool carnot_source_memory_maps(const carnot_source_memory* memory, const void* source,
                               size_t bytes) {
  uintptr_t at = (uintptr_t)source;
  for (size_t i = 0; i < memory->map_count; i++) {
    uintptr_t start = (uintptr_t)memory->maps[i].data;
    if (at >= start && at - start <= memory->maps[i].size &&
        bytes <= memory->maps[i].size - (at - start))
      return true;
  }
  return false;
}

// ---- pages of the maps ----

void carnot_source_memory_drop_maps(carnot_source_memory* memory) {
  for (size_t i = 0; i < memory->map_count; i++)
    if (memory->maps[i].size) madvise(memory->maps[i].data, memory->maps[i].size, MADV_DONTNEED);
  memory->read_bytes = 0;
}

// Notes that |bytes| of a map were read. A read brings the pages around it too, which may be many
// times as much where other weights lie between: pages go after 1/256 of the maps, or a quarter of
// a megabyte.
static void note_read(carnot_source_memory* memory, size_t bytes) {
  const size_t least = (size_t)1 << 18, part = memory->map_bytes / 256;
  memory->read_bytes += bytes;
  if (memory->read_bytes >= (part > least ? part : least)) carnot_source_memory_drop_maps(memory);
}

// ---- copies ----

// Pages for |size| bytes, huge ones where that is asked for and the system has them; NULL: none.
static void* map_slab(size_t size, bool is_huge) {
  if (!is_huge) {
    void* data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? NULL : data;
  }
  void* data = carnot_map_aligned(size, PROT_READ | PROT_WRITE, 0);
  if (data) madvise(data, size, MADV_HUGEPAGE);
  return data;
}

static carnot_status* add_slab(carnot_source_memory* memory, size_t bytes) {
  void* slabs = memory->slabs;
  CARNOT_TRY(carnot_grow(&slabs, &memory->slab_capacity, memory->slab_count + 1,
                         sizeof(*memory->slabs), "the list of weights"));
  memory->slabs = slabs;
  // Half a slab more does not matter behind many.
  const bool is_huge = memory->slab_count >= kSmallSlabs;
  const size_t least = is_huge ? CARNOT_HUGE_PAGE : kSmallSlab;
  size_t size = carnot_whole_pages(bytes > least ? bytes : least);
  void* data = map_slab(size, is_huge);
  if (!data) return CARNOT_NO_MEMORY(size, "weights");
  memory->slabs[memory->slab_count++] = (carnot_source_slab){.data = data, .size = size};
  return NULL;
}

carnot_status* carnot_source_memory_copy(carnot_source_memory* memory, const void* source,
                                         size_t bytes, void** out_data) {
  *out_data = NULL;
  size_t room = carnot_align_up(bytes, kAlignment);
  carnot_source_slab* slab = memory->slab_count ? &memory->slabs[memory->slab_count - 1] : NULL;
  if (!slab || room > slab->size - slab->used) {
    CARNOT_TRY(add_slab(memory, room));
    slab = &memory->slabs[memory->slab_count - 1];
  }
  void* copies = slab->copies;
  CARNOT_TRY(carnot_grow(&copies, &slab->copy_capacity, slab->copy_count + 1, sizeof(*slab->copies),
                         "the list of weights"));
  slab->copies = copies;
  char* data = slab->data + slab->used;
  memcpy(data, source, bytes);
  slab->copies[slab->copy_count++] =
      (carnot_source_copy){.data = data, .source = source, .bytes = bytes};
  slab->used += room;
  *out_data = data;
  note_read(memory, bytes);
  return NULL;
}

// ---- of a build ----

static carnot_source_copy* find_copy(carnot_source_memory* memory, const void* data,
                                     carnot_source_slab** out_slab) {
  for (size_t i = 0; i < memory->slab_count; i++) {
    carnot_source_slab* slab = &memory->slabs[i];
    if ((const char*)data < slab->data || (const char*)data >= slab->data + slab->used) continue;
    size_t low = 0, high = slab->copy_count;  // the last copy that begins at |data| or before
    while (high - low > 1) {
      size_t middle = low + (high - low) / 2;
      *(slab->copies[middle].data <= (const char*)data ? &low : &high) = middle;
    }
    *out_slab = slab;
    return &slab->copies[low];
  }
  return NULL;
}

void carnot_source_memory_count_reader(carnot_source_memory* memory, const void* data) {
  carnot_source_slab* slab;
  carnot_source_copy* copy = find_copy(memory, data, &slab);
  if (copy) copy->readers++;
}

bool carnot_source_memory_release(carnot_source_memory* memory, const void* data, size_t bytes) {
  carnot_source_slab* slab;
  carnot_source_copy* copy = find_copy(memory, data, &slab);
  if (!copy) {
    // Pages of a file may go at any time, and be read again.
    if (!carnot_source_memory_maps(memory, data, bytes)) return false;
    note_read(memory, bytes);
    return false;
  }
  if (memory->is_lent || copy->readers != 1 || copy->data != data || copy->bytes != bytes ||
      copy->is_released)
    return false;
  copy->is_released = memory->has_released = true;
  slab->released += carnot_align_up(bytes, kAlignment);
  if (slab->released == slab->used) {
    madvise(slab->data, slab->size, MADV_DONTNEED);
    slab->is_empty = true;
  }
  return true;
}

void carnot_source_memory_lend(carnot_source_memory* memory) {
  if (memory->has_released) carnot_source_memory_restore(memory);
  memory->is_lent = true;
}

void carnot_source_memory_restore(carnot_source_memory* memory) {
  for (size_t i = 0; i < memory->slab_count; i++) {
    carnot_source_slab* slab = &memory->slabs[i];
    for (size_t k = 0; k < slab->copy_count; k++) {
      carnot_source_copy* copy = &slab->copies[k];
      if (slab->is_empty) memcpy(copy->data, copy->source, copy->bytes);
      if (slab->is_empty) note_read(memory, copy->bytes);
      copy->is_released = false;
      copy->readers = 0;
    }
    slab->released = 0;
    slab->is_empty = false;
  }
  memory->has_released = false;
}
