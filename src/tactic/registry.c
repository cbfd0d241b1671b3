// The registry: every tactic of this build, indexed by anchor operator and by name.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tactic/tactic.h"

#define TACTIC(name) extern const carnot_tactic carnot_tactic_##name;
#include "tactic/tactics.def"
#undef TACTIC

static const carnot_tactic* const kCpuTactics[] = {
#define TACTIC(name) &carnot_tactic_##name,
#include "tactic/tactics.def"
#undef TACTIC
};
enum { kCpuCount = sizeof(kCpuTactics) / sizeof(kCpuTactics[0]) };
_Static_assert((int)kCpuCount <= (int)CARNOT_MAX_TACTICS, "CARNOT_MAX_TACTICS is too small");

typedef struct tactic_index {
  const carnot_tactic* const* table;
  size_t count;
  // Bit sets of table positions; the last is of tactics that are asked for every operator.
  uint64_t by_anchor[CARNOT_OP_COUNT + 1][CARNOT_MAX_TACTICS / 64];
  const carnot_tactic* by_name[CARNOT_MAX_TACTICS];
} tactic_index;

static tactic_index g_cpu, g_backend;
static pthread_once_t g_cpu_once = PTHREAD_ONCE_INIT;
// Set once, after g_backend is complete.
static atomic_bool g_has_backend;

static int compare_names(const void* a, const void* b) {
  return strcmp((*(const carnot_tactic* const*)a)->name, (*(const carnot_tactic* const*)b)->name);
}

static void make_index(tactic_index* index, const carnot_tactic* const* table, size_t count) {
  index->table = table;
  index->count = count;
  for (size_t i = 0; i < count; i++) {
    index->by_anchor[table[i]->anchor][i / 64] |= UINT64_C(1) << i % 64;
    index->by_name[i] = table[i];
  }
  qsort(index->by_name, count, sizeof(index->by_name[0]), compare_names);
}

static void make_cpu_index(void) { make_index(&g_cpu, kCpuTactics, kCpuCount); }

// The empty index when |backend| and no module is loaded.
static const tactic_index* index_of(bool backend) {
  static const tactic_index kEmpty;
  if (backend) return atomic_load(&g_has_backend) ? &g_backend : &kEmpty;
  pthread_once(&g_cpu_once, make_cpu_index);
  return &g_cpu;
}

carnot_status* carnot_tactics_add_backend(const carnot_tactic* const* table, size_t count) {
  CARNOT_CHECK(count <= CARNOT_MAX_TACTICS, OUT_OF_RANGE,
               "the backend module has %zu tactics, at most %d are possible", count,
               CARNOT_MAX_TACTICS);
  make_index(&g_backend, table, count);
  atomic_store(&g_has_backend, true);
  return NULL;
}

const carnot_tactic* const* carnot_tactics(bool backend, size_t* out_count) {
  const tactic_index* index = index_of(backend);
  *out_count = index->count;
  return index->table;
}

static void add_anchor(carnot_tactic_iterator* iterator, const tactic_index* index, carnot_op op) {
  for (size_t w = 0; w < CARNOT_MAX_TACTICS / 64; w++) iterator->left[w] |= index->by_anchor[op][w];
}

carnot_tactic_iterator carnot_tactics_for(const carnot_region* region, bool backend) {
  const tactic_index* index = index_of(backend);
  carnot_tactic_iterator iterator = {.table = index->table};
  for (uint32_t i = 0; i < region->node_count; i++)
    add_anchor(&iterator, index, region->nodes[i].op);
  add_anchor(&iterator, index, CARNOT_OP_COUNT);
  return iterator;
}

const carnot_tactic* carnot_tactic_next(carnot_tactic_iterator* iterator) {
  for (; iterator->word < CARNOT_MAX_TACTICS / 64; iterator->word++) {
    uint64_t* left = &iterator->left[iterator->word];
    if (!*left) continue;
    size_t position = iterator->word * 64 + (size_t)__builtin_ctzll(*left);
    *left &= *left - 1;
    return iterator->table[position];
  }
  return NULL;
}

static const carnot_tactic* find_in(const tactic_index* index, const char* name) {
  const carnot_tactic key = {.name = name};
  const carnot_tactic* wanted = &key;
  const carnot_tactic* const* found =
      bsearch(&wanted, index->by_name, index->count, sizeof(index->by_name[0]), compare_names);
  return found ? *found : NULL;
}

const carnot_tactic* carnot_tactic_find(const char* name) {
  const carnot_tactic* found = find_in(index_of(false), name);
  return found ? found : find_in(index_of(true), name);
}

const char* carnot_tactic_source_name(carnot_tactic_source source) {
  static const char* const kNames[] = {
      "cuBLAS", "cuBLASLt", "cuDNN", "edge masks", "compiled convolutions", "oneDNN"};
  return kNames[source];
}
