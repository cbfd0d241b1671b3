// Modules: shared libraries of this project that are opened on demand.
#ifndef CARNOT_BASE_MODULE_H_
#define CARNOT_BASE_MODULE_H_

#include "base/status.h"

// Opens the module |file| beside the program or library that holds this code, in lib/ of its
// installation, or on the system's path; |forced| (may be NULL) is its path instead. |what| names
// it in messages: "the CUDA module". NOT_FOUND says why it does not open. Any thread; never closed.
carnot_status* carnot_module_open(const char* what, const char* file, const char* forced,
                                  void** out_module) CARNOT_MUST_USE;

#endif  // CARNOT_BASE_MODULE_H_
