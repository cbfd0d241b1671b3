#include "triton/execute.h"

#include "base/status.h"
#include "triton/feed.h"
#include "triton/log.h"
#include "triton/reply.h"

// ---- one run ----

// The shapes of a run of |members|, with |rows| along the batch.
static void set_dims(carnot_triton_instance* instance, const carnot_triton_request* first,
                     int64_t rows) {
  for (uint32_t i = 0; i < instance->model->input_count; i++) {
    instance->dims[i] = first->dims[i];
    if (rows) instance->dims[i].d[0] = rows;
  }
}

static carnot_status* compute(carnot_triton_instance* instance,
                              carnot_triton_request* const* members, uint32_t count, int64_t rows) {
  set_dims(instance, members[0], rows);
  uint32_t profile = carnot_triton_model_find_profile(instance->model, instance->dims);
  if (profile != instance->profile) {
    CARNOT_TRY(carnot_context_set_profile(instance->context, profile));
    instance->profile = profile;
  }
  CARNOT_TRY(carnot_triton_feed(instance, members, count));
  instance->running = members;
  instance->running_count = count;
  carnot_status* status = carnot_context_run(instance->context);
  instance->running_count = 0;
  CARNOT_TRY(status);
  return carnot_triton_reply_find(instance, count > 1 ? rows : 0);
}

// Answers all |members| of a run that succeeded.
static void answer_all(carnot_triton_instance* instance, carnot_triton_request* const* members,
                       uint32_t count, int64_t rows, const carnot_triton_times* times) {
  int64_t first = 0;
  for (uint32_t m = 0; m < count; m++) {
    TRITONBACKEND_Response* response;
    carnot_status* status =
        carnot_triton_reply_write(instance, members[m], count > 1 ? rows : 0, first, &response);
    first += members[m]->rows;
    carnot_triton_request_answer(instance->handle, members[m], response, status, times);
  }
}

// Runs |members| together and answers them; an error of several is left to the caller.
static carnot_status* run(carnot_triton_instance* instance, carnot_triton_request* const* members,
                          uint32_t count, int64_t rows, uint64_t start) {
  carnot_triton_times times = {.start = start, .compute_start = carnot_triton_now()};
  carnot_status* status = compute(instance, members, count, rows);
  times.compute_end = carnot_triton_now();
  if (!status) {
    answer_all(instance, members, count, rows, &times);
    carnot_triton_log_error("statistics of a batch",
                            TRITONBACKEND_ModelInstanceReportBatchStatistics(
                                instance->handle, rows ? (uint64_t)rows : 1, start,
                                times.compute_start, times.compute_end, carnot_triton_now()));
  } else if (count == 1) {
    carnot_triton_request_answer(instance->handle, members[0], NULL, status, &times);
    status = NULL;
  }
  carnot_triton_feed_drop(instance);
  return status;
}

static void run_members(carnot_triton_instance* instance, uint32_t count, int64_t rows,
                        uint64_t start) {
  carnot_status* status = run(instance, instance->members, count, rows, start);
  if (!status) return;
  // One of them is to blame: alone, each gets its own answer.
  carnot_status_free(status);
  for (uint32_t m = 0; m < count; m++) {
    carnot_triton_request* member = instance->members[m];
    carnot_status_free(run(instance, &member, 1, member->rows, start));
  }
}

// ---- which requests run together ----

// Whether |rows| of the shapes of |request| are one run: the server's limit and a profile allow it.
static bool is_run(carnot_triton_instance* instance, const carnot_triton_request* request,
                   int64_t rows) {
  if (rows > instance->model->max_batch) return false;
  set_dims(instance, request, rows);
  return carnot_triton_model_find_profile(instance->model, instance->dims) <
         instance->model->profile_count;
}

// Gathers those of the open requests [count] that run with the first of them, and closes them.
static uint32_t gather_members(carnot_triton_instance* instance, carnot_triton_request** open,
                               uint32_t* count, int64_t* out_rows) {
  carnot_triton_request* first = open[0];
  uint32_t member_count = 1, left = 0;
  instance->members[0] = first;
  *out_rows = first->rows;
  for (uint32_t i = 1; i < *count; i++) {
    int64_t rows = *out_rows + open[i]->rows;
    if (first->rows && carnot_triton_request_fits(instance->model, first, open[i]) &&
        is_run(instance, first, rows)) {
      instance->members[member_count++] = open[i];
      *out_rows = rows;
    } else {
      open[left++] = open[i];
    }
  }
  *count = left;
  return member_count;
}

void carnot_triton_execute(carnot_triton_instance* instance, TRITONBACKEND_Request** requests,
                           uint32_t count) {
  uint64_t start = carnot_triton_now();
  carnot_triton_times times = {start, start, start};
  carnot_status* status = carnot_triton_instance_reserve(instance, count);
  if (status) {
    for (uint32_t i = 0; i < count; i++) {
      carnot_triton_request request = {.handle = requests[i]};
      carnot_status* own = CARNOT_ERROR(OUT_OF_MEMORY, "%s", carnot_status_message(status));
      carnot_triton_request_answer(instance->handle, &request, NULL, own, &times);
    }
    carnot_status_free(status);
    return;
  }
  uint32_t open = 0;
  for (uint32_t i = 0; i < count; i++) {
    carnot_triton_request* request = &instance->requests[i];
    status = carnot_triton_request_open(instance->model, requests[i], request);
    if (status)
      carnot_triton_request_answer(instance->handle, request, NULL, status, &times);
    else
      instance->open[open++] = request;
  }
  while (open) {
    int64_t rows;
    uint32_t members = gather_members(instance, instance->open, &open, &rows);
    run_members(instance, members, rows, start);
  }
}
