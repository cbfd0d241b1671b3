// Control flow of TensorFlow 1: what loops and conditionals are made of.
#include "import/tensorflow/control.h"
#include "import/tensorflow/rows.h"

// Outside of the branches of its condition a Switch passes its value on: dead branches are not
// asked for.
static void handle_switch(tf_import* n) {
  n->outputs[0] = n->outputs[1] = n->inputs[0];
  n->output_count = 2;
}

// The same for any number of branches.
static void handle_switch_n(tf_import* n) {
  const int64_t count = tf_int(n, "num_outs", 0);
  if (count < 1 || count > TF_MOST_OUTPUTS) {
    TF_FAIL(n, INVALID_MODEL, "num_outs is %lld; 1 to %d are possible", (long long)count,
            TF_MOST_OUTPUTS);
    return;
  }
  n->output_count = (int)count;
  for (int i = 0; i < n->output_count; i++) n->outputs[i] = n->inputs[0];
}

static void handle_passed(tf_import* n) { n->outputs[0] = n->inputs[0]; }

#define LAZY TF_INPUTS_ON_DEMAND
static const tf_row kRows[] = {
    {"Exit", tf_handle_exit, LAZY, 1, 0, NULL, NULL},
    {"RefExit", tf_handle_exit, LAZY, 1, 0, NULL, NULL},
    {"Merge", tf_handle_merge, LAZY, TF_MOST_OUTPUTS, 0, NULL, "output value_index"},
    {"RefMerge", tf_handle_merge, LAZY, TF_MOST_OUTPUTS, 0, NULL, "output value_index"},
    {"Switch", handle_switch, 2, 2, 0, NULL, "output_false output_true"},
    {"RefSwitch", handle_switch, 2, 2, 0, NULL, "output_false output_true"},
    {"_SwitchN", handle_switch_n, 2, 2, 0, NULL, NULL},
    {"_SwitchRefN", handle_switch_n, 2, 2, 0, NULL, NULL},
    {"Enter", handle_passed, 1, 1, 0, NULL, NULL},
    {"RefEnter", handle_passed, 1, 1, 0, NULL, NULL},
    {"LoopCond", handle_passed, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_control_v1 = TF_ROW_TABLE(kRows);
