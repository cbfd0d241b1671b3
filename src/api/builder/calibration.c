// Calibration: runs a network on samples and counts the values of its tensors.
#include "carnot/calibration.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "api/builder/channel_weights.h"
#include "api/builder/config.h"
#include "api/builder/network.h"
#include "backend/device.h"
#include "base/executor.h"
#include "calibration/threshold.h"

// A tensor of the network that is counted.
typedef struct observed {
  char* name;
  int input;  // of the network; -1: an output of the engine
  carnot_histogram histogram;
  carnot_channel_weights channels;  // count 0: none
  int channel_axis;
  carnot_channel_count* by_channel;  // [channels.count]; NULL: an input of the network, or none
  const carnot_value* value;         // of the network
  double min, max;                   // found by finish
  carnot_channel_factors factors;    // the same; count 0: none
  double gain;                       // of the factors
} observed;

struct carnot_calibration {
  const carnot_graph* graph;  // the network's
  carnot_engine* engine;
  carnot_executor* executor;
  carnot_context* context;
  char** inputs;  // names
  size_t input_count;
  observed* tensors;
  size_t tensor_count;
  size_t* found;  // after finish: the tensors with a range
  size_t found_count, sample_count;
};

static carnot_status* copy_name(const char* name, char** out) {
  void* text;
  CARNOT_TRY(carnot_calloc(strlen(name) + 1, 1, "a name", &text));
  memcpy(text, name, strlen(name));
  *out = text;
  return NULL;
}

static bool is_counted(const carnot_value* value) {
  return value && !value->constant && value->type.kind == CARNOT_VALUE_TENSOR &&
         carnot_dtype_is_float(value->type.dtype) && carnot_dtype_bits(value->type.dtype) >= 16 &&
         carnot_value_used(value);
}

static carnot_status* observe_channels(observed* tensor) {
  void* counts;
  if (tensor->input >= 0 || !tensor->channels.count) return NULL;
  CARNOT_TRY(
      carnot_calloc(tensor->channels.count, sizeof(carnot_channel_count), "channels", &counts));
  tensor->by_channel = counts;
  return NULL;
}

static carnot_status* observe(carnot_calibration* c, carnot_value* value, int input) {
  observed* tensor = &c->tensors[c->tensor_count++];
  tensor->input = input;
  CARNOT_TRY(carnot_histogram_init(&tensor->histogram, /*levels=*/input >= 0));
  CARNOT_TRY(copy_name(value->name, &tensor->name));
  CARNOT_TRY(carnot_weigh_channels(value, &tensor->channels, &tensor->channel_axis));
  CARNOT_TRY(observe_channels(tensor));
  if (input < 0 && !value->block_output_count) carnot_block_add_output(value->block, value);
  return NULL;
}

static size_t most_tensors(const carnot_block* block) {
  size_t count = block->param_count;
  for (const carnot_node* node = block->first; node; node = node->next)
    count += (size_t)node->output_count;
  return count;
}

// Makes every tensor that is counted an output of |graph|, in the order of the network.
static carnot_status* observe_all(carnot_calibration* c, carnot_graph* graph) {
  carnot_block* block = graph->main;
  void *tensors, *names, *found;
  size_t most = most_tensors(block);
  CARNOT_TRY(carnot_calloc(most + 1, sizeof(observed), "the tensors of a calibration", &tensors));
  c->tensors = tensors;
  CARNOT_TRY(carnot_calloc(most + 1, sizeof(size_t), "the tensors of a calibration", &found));
  c->found = found;
  CARNOT_TRY(carnot_calloc(block->param_count + 1, sizeof(char*), "the inputs' names", &names));
  c->inputs = names;
  for (size_t i = 0; i < block->param_count; i++) {
    CARNOT_TRY(copy_name(block->params[i]->name, &c->inputs[c->input_count]));
    c->input_count++;
    if (is_counted(block->params[i])) CARNOT_TRY(observe(c, block->params[i], (int)i));
  }
  for (const carnot_node* node = block->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (is_counted(node->outputs[i])) CARNOT_TRY(observe(c, node->outputs[i], -1));
  return carnot_graph_status(graph);
}

static void note_value(carnot_calibration* c, const carnot_value* value) {
  for (size_t i = 0; value && i < c->tensor_count; i++)
    if (strcmp(c->tensors[i].name, value->name) == 0) c->tensors[i].value = value;
}

// The values of the network that the tensors are: their readers are read by finish.
static void note_values(carnot_calibration* c, const carnot_graph* graph) {
  c->graph = graph;
  for (const carnot_node* node = graph->main->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++) note_value(c, node->outputs[i]);
}

// The configuration of the engine that is run: FP32, any shape, no timing.
static carnot_config engine_config(const carnot_config* config) {
  carnot_config own = *config;
  own.wants_quantized = false;
  own.profile_count = 0;
  carnot_build_config* build = &own.build;
  build->typing = (carnot_precision_constraints){0};
  build->ranges = NULL;
  build->selector = (carnot_tactic_selector){0};
  build->level = 1;
  build->refit = build->strip = false;
  build->io_format_count = 0;
  build->dump_pass = NULL;
  return own;
}

// The CPU where the device that is built for is absent.
static carnot_status* choose_device(carnot_config* config) {
  carnot_device* device;
  CARNOT_TRY(carnot_device_choose(config->device, &device));
  if (device && device->ordinal < 0) config->device = "cpu";
  return NULL;
}

static carnot_status* make_engine(carnot_calibration* c, const carnot_network* network,
                                  const carnot_config* config) {
  carnot_graph* graph;
  CARNOT_TRY(carnot_graph_clone(network->graph, &graph));
  carnot_status* status = observe_all(c, graph);
  note_values(c, network->graph);
  carnot_config* defaults = NULL;
  if (!status && !config) status = carnot_config_create(&defaults);
  if (!status) {
    carnot_config own = engine_config(config ? config : defaults);
    status = choose_device(&own);
    if (!status) status = carnot_build_graph(network, graph, &own, &c->engine);
  }
  carnot_config_destroy(defaults);
  carnot_graph_destroy(graph);
  return status;
}

carnot_status* carnot_calibration_create(const carnot_network* network, const carnot_config* config,
                                         carnot_calibration** out_calibration) {
  *out_calibration = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_calibration), "a calibration", &memory));
  carnot_calibration* c = memory;
  carnot_status* status = make_engine(c, network, config);
  if (!status) status = carnot_executor_create(config ? config->thread_count : 1, &c->executor);
  carnot_context_config context = {.executor = c->executor, .host_tensors = true};
  if (!status) status = carnot_context_create(c->engine, &context, &c->context);
  if (status) {
    carnot_calibration_destroy(c);
    return carnot_status_annotate(status, "calibration");
  }
  *out_calibration = c;
  return NULL;
}

void carnot_calibration_destroy(carnot_calibration* c) {
  if (!c) return;
  carnot_context_destroy(c->context);
  carnot_executor_destroy(c->executor);
  carnot_engine_release(c->engine);
  for (size_t i = 0; i < c->input_count; i++) free(c->inputs[i]);
  for (size_t i = 0; i < c->tensor_count; i++) {
    free(c->tensors[i].name);
    free(c->tensors[i].channels.weights);
    free(c->tensors[i].by_channel);
    free((float*)(uintptr_t)c->tensors[i].factors.factors);
    carnot_histogram_deinit(&c->tensors[i].histogram);
  }
  free(c->inputs);
  free(c->tensors);
  free(c->found);
  free(c);
}

// ---- samples ----

typedef struct counting {
  carnot_calibration* calibration;
  const carnot_data** data;  // by tensor
  carnot_status** statuses;
} counting;

static void count_tensor(void* argument, int64_t part) {
  const counting* c = argument;
  observed* tensor = &c->calibration->tensors[part];
  const carnot_data* data = c->data[part];
  if (carnot_data_kind_of(data) != CARNOT_DATA_TENSOR) return;
  carnot_dims dims = carnot_data_dims(data);
  carnot_channel_weights* channels = tensor->channels.count ? &tensor->channels : NULL;
  if (channels) {
    channels->inner = 1;
    for (int d = tensor->channel_axis + 1; d < dims.rank; d++) channels->inner *= (size_t)dims.d[d];
  }
  carnot_status* status =
      carnot_histogram_add(&tensor->histogram, carnot_data_dtype(data), carnot_data_numbers(data),
                           (size_t)carnot_dims_count(dims.d, dims.rank), channels);
  if (!status && tensor->by_channel)
    carnot_channel_counts_add(tensor->by_channel, channels->count, channels->inner,
                              carnot_data_dtype(data), carnot_data_numbers(data),
                              (size_t)carnot_dims_count(dims.d, dims.rank));
  c->statuses[part] = carnot_status_annotate(status, "sample %zu, tensor %s",
                                             c->calibration->sample_count, tensor->name);
}

// The values of every tensor in the last run. A context serves one thread at a time.
static carnot_status* collect(const carnot_calibration* c, const carnot_data* const* inputs,
                              const carnot_data** out) {
  for (size_t i = 0; i < c->tensor_count; i++) {
    const observed* tensor = &c->tensors[i];
    if (tensor->input >= 0)
      out[i] = inputs[tensor->input];
    else
      CARNOT_TRY(carnot_context_output_value(c->context, tensor->name, &out[i]));
  }
  return NULL;
}

// Runs |part| for every tensor, each on one thread; the first error in their order is returned.
static carnot_status* each_tensor(carnot_calibration* c, void (*part)(void* argument, int64_t part),
                                  void* argument, carnot_status** statuses) {
  bool own = carnot_executor_begin(c->executor);
  carnot_executor_parallel(own ? c->executor : NULL, (int64_t)c->tensor_count, part, argument);
  if (own) carnot_executor_end(c->executor);
  carnot_status* first = NULL;
  for (size_t i = 0; i < c->tensor_count; i++) {
    if (!first)
      first = statuses[i];
    else
      carnot_status_free(statuses[i]);
  }
  return first;
}

static carnot_status* count_tensors(carnot_calibration* c, const carnot_data* const* inputs) {
  void *data = NULL, *statuses = NULL;
  carnot_status* status = carnot_calloc(c->tensor_count + 1, sizeof(carnot_data*), "values", &data);
  if (!status)
    status = carnot_calloc(c->tensor_count + 1, sizeof(carnot_status*), "statuses", &statuses);
  if (!status) status = collect(c, inputs, data);
  if (!status) status = each_tensor(c, count_tensor, &(counting){c, data, statuses}, statuses);
  free(data);
  free(statuses);
  return status;
}

carnot_status* carnot_calibration_add(carnot_calibration* c, const carnot_data* const* inputs) {
  for (size_t i = 0; i < c->input_count; i++) {
    CARNOT_CHECK(inputs[i], INVALID_ARGUMENT, "sample %zu: input %s is NULL", c->sample_count,
                 c->inputs[i]);
    CARNOT_TRY_AT(carnot_context_set_input_value(c->context, c->inputs[i], inputs[i]), "sample %zu",
                  c->sample_count);
  }
  CARNOT_TRY_AT(carnot_context_run(c->context), "sample %zu", c->sample_count);
  CARNOT_TRY(count_tensors(c, inputs));
  c->sample_count++;
  return NULL;
}

// ---- ranges ----

typedef struct choosing {
  carnot_calibration* calibration;
  const carnot_calibration_options* options;
  carnot_status** statuses;
} choosing;

static bool has_range(const carnot_histogram* histogram) {
  return histogram->largest / 127 >= (double)FLT_MIN;
}

// The range of |tensor| divided by |factors|.
static carnot_status* choose_divided_range(observed* tensor, const float* factors,
                                           const carnot_calibration_options* options) {
  carnot_histogram joined;
  tensor->factors = (carnot_channel_factors){.factors = factors, .count = tensor->channels.count};
  CARNOT_TRY(carnot_channel_counts_join(tensor->by_channel, tensor->channels.count, factors,
                                        tensor->channels.weights, &joined));
  carnot_status* status =
      carnot_calibration_range(&joined, options, &tensor->factors.min, &tensor->factors.max);
  carnot_histogram_deinit(&joined);
  return status;
}

// Factors that make the layers' error smaller by more than they are worth.
static carnot_status* choose_factors(observed* tensor, const carnot_calibration_options* options) {
  const double kWorth = 0.97;
  const size_t channels = tensor->channels.count;
  carnot_channel_readers readers;
  void* factors = NULL;
  free((float*)(uintptr_t)tensor->factors.factors);
  tensor->factors = (carnot_channel_factors){.count = 0};
  carnot_status* status = carnot_channel_readers_init(tensor->value, channels, &readers);
  tensor->gain = 1;
  if (!status && readers.count) {
    status = carnot_calloc(channels, sizeof(float), "factors", &factors);
    if (!status)
      status = carnot_equalize(tensor->by_channel, channels, readers.norms, readers.items,
                               readers.count, factors, &tensor->gain);
  }
  carnot_channel_readers_deinit(&readers);
  if (!status && tensor->gain < kWorth) return choose_divided_range(tensor, factors, options);
  tensor->gain = 1;
  free(factors);
  return status;
}

static void choose_range(void* argument, int64_t part) {
  const choosing* c = argument;
  observed* tensor = &c->calibration->tensors[part];
  if (!has_range(&tensor->histogram)) return;
  carnot_status* status =
      carnot_calibration_range(&tensor->histogram, c->options, &tensor->min, &tensor->max);
  if (!status && c->options->method == CARNOT_CALIBRATION_MSE && tensor->by_channel &&
      tensor->value)
    status = choose_factors(tensor, c->options);
  c->statuses[part] = status;
}

static carnot_status* check_options(const carnot_calibration_options* options) {
  CARNOT_CHECK(options->method <= CARNOT_CALIBRATION_MSE, INVALID_ARGUMENT,
               "there is no calibration method %d", (int)options->method);
  if (options->method != CARNOT_CALIBRATION_PERCENTILE) return NULL;
  CARNOT_CHECK(options->quantile > 0 && options->quantile <= 1, INVALID_ARGUMENT,
               "the quantile is %g, must be above 0 and at most 1", options->quantile);
  CARNOT_CHECK(options->cutoff > 0 && options->cutoff <= 1, INVALID_ARGUMENT,
               "the cutoff is %g, must be above 0 and at most 1", options->cutoff);
  return NULL;
}

carnot_status* carnot_calibration_finish(carnot_calibration* c,
                                         const carnot_calibration_options* options,
                                         carnot_ranges* ranges) {
  CARNOT_TRY(check_options(options));
  CARNOT_CHECK(c->sample_count, FAILED_PRECONDITION, "calibration has no data: add samples first");
  void* statuses;
  CARNOT_TRY(carnot_calloc(c->tensor_count + 1, sizeof(carnot_status*), "statuses", &statuses));
  carnot_graph_restore_constants(c->graph);
  carnot_status* status = each_tensor(c, choose_range, &(choosing){c, options, statuses}, statuses);
  free(statuses);
  c->found_count = 0;
  for (size_t i = 0; !status && i < c->tensor_count; i++) {
    const observed* tensor = &c->tensors[i];
    if (!has_range(&tensor->histogram)) continue;
    status = carnot_ranges_set(ranges, tensor->name, tensor->min, tensor->max);
    if (!status && tensor->factors.count)
      status = carnot_ranges_set_factors(ranges, tensor->name, &tensor->factors);
    if (!status) c->found[c->found_count++] = i;
  }
  return status;
}

size_t carnot_calibration_tensor_count(const carnot_calibration* c) { return c->found_count; }

carnot_status* carnot_calibration_tensor_info(const carnot_calibration* c, size_t index,
                                              carnot_calibration_tensor* out) {
  CARNOT_CHECK(index < c->found_count, OUT_OF_RANGE, "tensor %zu of %zu", index, c->found_count);
  const observed* tensor = &c->tensors[c->found[index]];
  const carnot_histogram* h = &tensor->histogram;
  double power = carnot_calibration_power(h);
  *out = (carnot_calibration_tensor){
      .name = tensor->name,
      .count = h->count,
      .seen_min = h->min,
      .seen_max = h->max,
      .min = tensor->min,
      .max = tensor->max,
      .clipped = carnot_calibration_clipped(h, tensor->min, tensor->max),
      .error = power > 0 ? sqrt(carnot_calibration_error(h, tensor->min, tensor->max) / power) : 0,
      .equalized = tensor->factors.count ? tensor->gain : 1};
  return NULL;
}
