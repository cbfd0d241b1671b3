// Special functions that several families of operators use.
#ifndef CARNOT_IMPORT_TENSORFLOW_SPECIAL_H_
#define CARNOT_IMPORT_TENSORFLOW_SPECIAL_H_

#include "import/tensorflow/importer.h"

// The inverse of erf, to about 2e-7 of its value; infinite at -1 and 1.
carnot_value* tf_erfinv(tf_import* n, carnot_value* x);

#endif  // CARNOT_IMPORT_TENSORFLOW_SPECIAL_H_
