// carnot report: one HTML page about an engine. The page gets one JSON document:
//   {"version": 1, "engines": [ENGINE, ENGINE of --compare]}
// An ENGINE is the inspector's data with times, limits, layout and timeline, in the compact form
// that report_data.c documents.
#ifndef CARNOT_TOOLS_REPORT_H_
#define CARNOT_TOOLS_REPORT_H_

#include <jansson.h>

#include "session.h"

// The inspector's data |root| in the page's form; a new reference.
json_t* report_compact(const json_t* root);

// Puts the times that FILE |path| holds into |root|, the inspector's data: the array that `carnot
// exec --exportProfile` writes, the object of `carnot inspect --peaks --json`, which has limits
// too, or the trace of --exportTimeline, which is returned in *out_trace (else NULL; a new
// reference). INVALID_ARGUMENT when no layer of the engine is named there.
carnot_status* report_read_profile(const char* path, json_t* root,
                                   json_t** out_trace) CARNOT_MUST_USE;

// Puts the figures of FILE |path|, which `carnot debug compare --json` writes, into the layers of
// |root|, the inspector's data, as "Error": {"max_abs", "max_rel", "cosine", "outside", "count"}.
// INVALID_ARGUMENT when no layer of the engine is named there.
carnot_status* report_read_errors(const char* path, json_t* root) CARNOT_MUST_USE;

// Puts the spans of |trace|, which carnot_context_record_timeline describes, into |engine|
// (report_compact) as "timeline": {"lanes": [NAME], "events": [[lane, start_us, us, layer, name]]};
// a layer is -1 where there is none.
void report_add_timeline(const json_t* trace, json_t* engine);

// Asks Graphviz's program `dot` for the layout of |engine| (report_compact) and adds it as
// "layout": {"width", "height", "nodes": [[kind, index, x, y]], "edges": [[from, to, value,
// [x, y, ...]]]}. A kind is 0 layer, 1 input, 2 output; |index| of a layer, else of a value; x and
// y are pixels of the centre; from and to index nodes; the points are of cubic Bezier curves, none
// where the page draws the edge. "layout": {"missing": REASON} where there is no `dot`.
carnot_status* report_add_layout(json_t* engine) CARNOT_MUST_USE;

// The size of a node in pixels.
enum { REPORT_NODE_WIDTH = 210, REPORT_NODE_HEIGHT = 46 };

// A part of the page, made from the files of tools/carnot/report at build time.
typedef struct report_asset {
  const unsigned char* data;
  size_t size;
} report_asset;
// The page before the data and after it.
extern const report_asset report_page_head, report_page_tail;

#endif  // CARNOT_TOOLS_REPORT_H_
