// What every file of the command line needs: raising errors, memory, whole files.
#ifndef CARNOT_TOOLS_SUPPORT_H_
#define CARNOT_TOOLS_SUPPORT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "carnot/data.h"
#include "carnot/file.h"

// ---- errors ----

// CLI_ERROR(INVALID_ARGUMENT, "--top is '%s'", text)
#define CLI_ERROR(code, ...) carnot_status_make(CARNOT_##code, __FILE__, __LINE__, __VA_ARGS__)
// Returns from the enclosing function when |expr| fails; _AT puts a formatted text before the
// message.
#define CLI_TRY(expr)                      \
  do {                                     \
    carnot_status* cli_try_ = (expr);      \
    if (cli_try_ != NULL) return cli_try_; \
  } while (0)
#define CLI_TRY_AT(expr, ...)                                                   \
  do {                                                                          \
    carnot_status* cli_try_ = (expr);                                           \
    if (cli_try_ != NULL) return carnot_status_annotate(cli_try_, __VA_ARGS__); \
  } while (0)
// Returns an error unless |condition| holds.
#define CLI_CHECK(condition, code, ...)                    \
  do {                                                     \
    if (!(condition)) return CLI_ERROR(code, __VA_ARGS__); \
  } while (0)
#define CLI_NO_MEMORY(bytes, what) \
  CLI_ERROR(OUT_OF_MEMORY, "no memory for %zu bytes of %s", (size_t)(bytes), (what))
// Messages that begin so decide the exit code (main.c): the command line is wrong; two things that
// were compared differ.
#define CLI_USAGE        "usage: "
#define CLI_DIFFERENT    "different: "
#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

// ---- memory ----

typedef struct cli_arena_block cli_arena_block;

// Allocations that end together, and carnot_data to destroy then. Zero-initialised is empty. One
// thread at a time.
typedef struct cli_arena {
  cli_arena_block* blocks;
  carnot_data** data;
  size_t data_count, data_capacity;
} cli_arena;

void cli_arena_deinit(cli_arena* arena);
// |bytes| zeroed bytes aligned to 64. OUT_OF_MEMORY names |what|.
carnot_status* cli_arena_try(cli_arena* arena, size_t bytes, const char* what,
                             void** out_memory) CARNOT_MUST_USE;
// The same for small sizes: ends the process when the machine has no memory for them.
void* cli_arena_alloc(cli_arena* arena, size_t count, size_t size);
#define CLI_NEW_ARRAY(arena, type, count) ((type*)cli_arena_alloc((arena), (count), sizeof(type)))
// A copy of |length| bytes of text with a 0 behind it.
char* cli_arena_text(cli_arena* arena, const char* text, size_t length);
// Takes |data|, also when it fails.
carnot_status* cli_arena_own(cli_arena* arena, carnot_data* data) CARNOT_MUST_USE;

// Grows a heap array: |*items| holds |*capacity| items of |size| bytes, afterwards at least
// |count|. The caller frees it.
carnot_status* cli_grow(void** items, size_t* capacity, size_t count, size_t size,
                        const char* what) CARNOT_MUST_USE;

// ---- files ----

// A read-only mapping of a regular file; data NULL and size 0 for an empty one.
typedef struct cli_mapping {
  const void* data;
  size_t size;
} cli_mapping;
carnot_status* cli_map_file(const char* path, cli_mapping* out_map) CARNOT_MUST_USE;
void cli_unmap(cli_mapping* map);

// Makes the folder |path| with those above it.
carnot_status* cli_make_folder(const char* path) CARNOT_MUST_USE;
// |name| as the name of a file: every unusual character becomes '_'.
void cli_safe_name(const char* name, char* out, size_t size);

// ---- text and time ----

// "[1,3,224,224]".
void cli_dims_text(const carnot_dims* dims, char* out, size_t size);
// Milliseconds of a clock that only goes forward.
double cli_now_ms(void);
// The largest resident size of this process so far, in MiB.
double cli_peak_rss_mb(void);
// Levenshtein's distance of two names, |b| of at most 64 characters.
int cli_distance(const char* a, const char* b);
// The distance from |name| below which another name is worth proposing: a third of its length.
int cli_nearest_limit(const char* name);

#endif  // CARNOT_TOOLS_SUPPORT_H_
