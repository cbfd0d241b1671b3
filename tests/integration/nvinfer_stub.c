// A library of TensorRT's name, for a plugin library to need.
#include "carnot/status.h"

CARNOT_API int nvinfer_stub(void);
int nvinfer_stub(void) { return 0; }
