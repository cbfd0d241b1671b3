// carnot exec --refitFromOnnx and --timeRefit: the weights of a model go into a loaded engine.
#include <stdlib.h>
#include <string.h>

#include "carnot/edit.h"
#include "carnot/onnx.h"
#include "exec.h"

typedef struct refit_pass {
  carnot_refit* refit;
  int count;
  carnot_status* status;
} refit_pass;

static bool is_wanted(const carnot_refit* refit, const char* name) {
  const char* one;
  for (uint32_t i = 0; (one = carnot_refit_name(refit, i)) != NULL; i++)
    if (strcmp(one, name) == 0) return true;
  return false;
}

static void set_weight(void* user, const char* name, carnot_dtype dtype, const carnot_dims* dims,
                       const void* data) {
  refit_pass* pass = user;
  if (pass->status || !is_wanted(pass->refit, name)) return;
  pass->status = carnot_refit_set_weights(pass->refit, name, dtype, dims, data);
  pass->count++;
}

static carnot_status* commit(carnot_refit* refit) {
  const char* missing = carnot_refit_missing(refit);
  CLI_CHECK(!missing, INVALID_MODEL, "the model has no weights %s, which the engine needs",
            missing);
  return carnot_refit_commit(refit);
}

static carnot_status* refit_once(carnot_engine* engine, const carnot_network* network,
                                 int* out_count) {
  refit_pass pass = {.count = 0};
  CLI_TRY(carnot_refit_begin(engine, &pass.refit));
  carnot_status* status = carnot_network_visit_weights(network, set_weight, &pass);
  if (!status) status = pass.status;
  if (!status) status = commit(pass.refit);
  carnot_refit_free(pass.refit);
  *out_count = pass.count;
  return status;
}

carnot_status* exec_refit(const exec_options* o, carnot_engine* engine) {
  const char* model = o->refit_model ? o->refit_model : o->time_refit ? o->onnx : NULL;
  if (!model) return NULL;
  carnot_network* network;
  CLI_TRY_AT(
      carnot_onnx_parse_file_with(model, o->build.onnx_flags | CARNOT_ONNX_KEEP_NODES, &network),
      "--refitFromOnnx");
  int count = 0;
  double start = cli_now_ms();
  carnot_status* status = refit_once(engine, network, &count);
  if (!status)
    exec_log('I', "Engine refitted with %d weights of %s in %.4g sec.", count, model,
             (cli_now_ms() - start) * 1e-3);
  carnot_network_destroy(network);
  return carnot_status_annotate(status, "%s", model);
}
