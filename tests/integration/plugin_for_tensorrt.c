// A plugin library that links libnvinfer: it must be refused before it is opened.
#include "carnot/status.h"

int nvinfer_stub(void);
CARNOT_API int getCreators(void);
int getCreators(void) { return nvinfer_stub(); }
