// A library with TensorRT's name, which plugin_for_tensorrt links.
#include "carnot/status.h"

CARNOT_API int nvinfer_stub(void);
int nvinfer_stub(void) { return 0; }
