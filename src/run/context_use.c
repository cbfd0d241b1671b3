// The guard of a context: one thread at a time uses it.
#include "run/context.h"

// Its address tells threads apart.
static _Thread_local char thread_mark;

// Takes the guard; false when it is taken, and |*out_owner| says by whom.
static bool take(const carnot_context* context, uintptr_t* out_owner) {
  *out_owner = 0;
  return atomic_compare_exchange_strong(&((carnot_context*)(uintptr_t)context)->owner, out_owner,
                                        (uintptr_t)&thread_mark);
}

static carnot_status* in_use(const char* call) {
  return CARNOT_ERROR(FAILED_PRECONDITION,
                      "%s: another thread is using this context; a context serves one thread at a "
                      "time: create one context for each thread",
                      call);
}

carnot_status* carnot_context_enter(carnot_context* context, const char* call) {
  uintptr_t owner;
  if (take(context, &owner)) return NULL;
  CARNOT_CHECK(owner != (uintptr_t)&thread_mark, FAILED_PRECONDITION,
               "%s: called by a callback of a call on the same context", call);
  return in_use(call);
}

carnot_status* carnot_context_enter_to_read(const carnot_context* context, const char* call,
                                            bool* out_taken) {
  uintptr_t owner;
  *out_taken = take(context, &owner);
  return *out_taken || owner == (uintptr_t)&thread_mark ? NULL : in_use(call);
}

carnot_status* carnot_context_leave(carnot_context* context, carnot_status* status) {
  atomic_store(&context->owner, 0);
  return status;
}

void carnot_context_leave_read(const carnot_context* context, bool taken) {
  if (taken) atomic_store(&((carnot_context*)(uintptr_t)context)->owner, 0);
}
