// Errors: every call that can fail returns a carnot_status*.
//
// NULL means success. A status has a code and a message; its receiver must free it with
// carnot_status_free or pass it on. Messages name the object, the value
// found and the value required.
#ifndef CARNOT_STATUS_H_
#define CARNOT_STATUS_H_

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CARNOT_MUST_USE     __attribute__((warn_unused_result))
#define CARNOT_API          __attribute__((visibility("default")))
#define CARNOT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define CARNOT_MUST_USE
#define CARNOT_API
#define CARNOT_PRINTF(f, a)
#endif

#define CARNOT_CODES(X)                                                         \
  X(OK, "ok")                                                                   \
  X(INVALID_ARGUMENT, "invalid argument") /* the caller's mistake */            \
  X(INVALID_MODEL, "invalid model")       /* a file that breaks its format */   \
  X(UNSUPPORTED, "unsupported")           /* valid, but not implemented */      \
  X(NOT_FOUND, "not found")                                                     \
  X(OUT_OF_MEMORY, "out of memory")                                             \
  X(OUT_OF_RANGE, "out of range") /* a limit was exceeded */                    \
  X(IO, "input/output error")                                                   \
  X(VERSION_MISMATCH, "version mismatch")                                       \
  X(FAILED_PRECONDITION, "failed precondition") /* called in the wrong state */ \
  X(CANCELLED, "cancelled")                                                     \
  X(INTERNAL, "internal error")

typedef enum carnot_code {
#define CARNOT_CODE_ENUM(NAME, text) CARNOT_##NAME,
  CARNOT_CODES(CARNOT_CODE_ENUM)
#undef CARNOT_CODE_ENUM
} carnot_code;

typedef struct carnot_status carnot_status;

// The code of |status|; CARNOT_OK for NULL.
CARNOT_API carnot_code carnot_status_code(const carnot_status* status);
// The message, with its annotations, outermost first; "ok" for NULL. Lives as long as |status|.
CARNOT_API const char* carnot_status_message(const carnot_status* status);
// The code in words.
CARNOT_API const char* carnot_code_name(carnot_code code);
// Frees |status|; NULL is allowed.
CARNOT_API void carnot_status_free(carnot_status* status);

// For programs and callbacks that report their own errors in the same way. A new status with a
// message as printf formats it; |format| is required, |file| and |line| appear in the message of
// INTERNAL errors only. Never fails: without memory it returns a static OUT_OF_MEMORY status. Any
// thread.
CARNOT_API carnot_status* carnot_status_make(carnot_code code, const char* file, int line,
                                             const char* format, ...)
    CARNOT_PRINTF(4, 5) CARNOT_MUST_USE;
// Puts "text: " before the message of |status|, takes it and returns it. NULL stays NULL. Any
// thread.
CARNOT_API carnot_status* carnot_status_annotate(carnot_status* status, const char* format, ...)
    CARNOT_PRINTF(2, 3) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_STATUS_H_
