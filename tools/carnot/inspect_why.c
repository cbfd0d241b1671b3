// Why the other tactics of a layer were not taken, short: tactics of the same reason are one entry,
// those that this build does not allow are one count.
#include <stdio.h>
#include <string.h>

#include "inspect.h"

enum { kMaxReasons = 64 };

typedef struct reason {
  const char *tactic, *text;  // of the first tactic
  int tactic_length, text_length, count;
} reason;

typedef struct reasons {
  reason items[kMaxReasons];
  int count, not_allowed;
} reasons;

static bool contains(const char* text, int length, const char* part) {
  return memmem(text, (size_t)length, part, strlen(part)) != NULL;
}

// Types and instruction sets that the flags or the machine leave out.
static bool is_left_out(const char* text, int length) {
  return contains(text, length, "is not allowed here") ||
         (length > 6 && memcmp(text, "needs ", 6) == 0);
}

static void add(reasons* out, const char* entry, int length) {
  const char* colon = memmem(entry, (size_t)length, ": ", 2);
  const char* text = colon ? colon + 2 : entry;
  int text_length = length - (int)(text - entry), tactic = colon ? (int)(colon - entry) : 0;
  if (is_left_out(text, text_length)) {
    out->not_allowed++;
    return;
  }
  for (int i = 0; i < out->count; i++) {
    reason* r = &out->items[i];
    bool same = r->text_length == text_length && memcmp(r->text, text, (size_t)text_length) == 0;
    if (same) {
      r->count++;
      return;
    }
  }
  if (out->count < kMaxReasons)
    out->items[out->count++] = (reason){entry, text, tactic, text_length, 1};
}

// A tactic that was timed says how long it took: these come first.
static bool is_timed(const reason* r) {
  return r->text_length > 5 && memcmp(r->text, "took ", 5) == 0;
}

static void print(const reason* r) {
  printf("      not taken: %.*s", r->tactic_length, r->tactic);
  if (r->count > 1) printf(" and %d more", r->count - 1);
  printf("%s%.*s\n", r->tactic_length ? ": " : "", r->text_length, r->text);
}

void inspect_print_why(const char* rejected) {
  reasons found = {.count = 0};
  while (*rejected) {
    const char* end = strstr(rejected, "; ");
    add(&found, rejected, (int)(end ? (size_t)(end - rejected) : strlen(rejected)));
    rejected = end ? end + 2 : rejected + strlen(rejected);
  }
  for (int timed = 1; timed >= 0; timed--)
    for (int i = 0; i < found.count; i++)
      if (is_timed(&found.items[i]) == (timed == 1)) print(&found.items[i]);
  if (found.not_allowed)
    printf("      not taken: %d of types or instruction sets that this build does not allow\n",
           found.not_allowed);
}
