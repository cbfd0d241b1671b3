// A string that somebody else owns, without a NUL at its end.
#ifndef CARNOT_BASE_STRVIEW_H_
#define CARNOT_BASE_STRVIEW_H_

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct carnot_strview {
  const char* data;
  size_t size;
} carnot_strview;

static inline carnot_strview carnot_view(const char* text) {
  carnot_strview view = {text, text ? strlen(text) : 0};
  return view;
}
static inline bool carnot_view_equal(carnot_strview a, carnot_strview b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}
static inline bool carnot_view_is(carnot_strview view, const char* text) {
  return carnot_view_equal(view, carnot_view(text));
}
static inline bool carnot_view_starts(carnot_strview view, const char* prefix) {
  size_t n = strlen(prefix);
  return view.size >= n && memcmp(view.data, prefix, n) == 0;
}

// For printf: printf(CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(view)).
#define CARNOT_VIEW_FMT       "%.*s"
#define CARNOT_VIEW_ARG(view) (int)(view).size, (view).data ? (view).data : ""

#endif  // CARNOT_BASE_STRVIEW_H_
