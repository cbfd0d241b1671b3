// Conditionals of any number of branches.
#ifndef CARNOT_IMPORT_TENSORFLOW_CASE_H_
#define CARNOT_IMPORT_TENSORFLOW_CASE_H_

#include "import/tensorflow/importer.h"

// A body and the values of the block around that its parameters stand for.
typedef struct tf_branch {
  carnot_block* block;
  carnot_value** given;
  int count;
} tf_branch;

// Sets |outputs| to the results of branch |index|, a scalar integer; of the last branch where
// |index| is less than 0 or not less than |count|. Two branches and more become nested IF.
void tf_emit_case(tf_import* n, carnot_value* index, const tf_branch* branches, int count,
                  carnot_value** outputs, int output_count);
// The same for two branches by a truth value: |branches| are those of true and of false.
void tf_emit_if(import_node* node, carnot_value* condition, const tf_branch* branches,
                carnot_value** outputs, int output_count);

#endif  // CARNOT_IMPORT_TENSORFLOW_CASE_H_
