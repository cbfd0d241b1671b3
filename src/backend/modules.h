// Between device.c and tactics.c: the backend module in use.
#ifndef CARNOT_BACKEND_MODULES_H_
#define CARNOT_BACKEND_MODULES_H_

#include "backend/device.h"

// NULL before a device was opened.
const carnot_backend* carnot_backend_loaded(void);

#endif  // CARNOT_BACKEND_MODULES_H_
