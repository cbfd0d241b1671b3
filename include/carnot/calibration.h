// Calibration: ranges of a network's tensors, from which a build quantizes it to 8 bits.
//
// A range [min, max] of a tensor becomes a scale: where min is -max, int8 with scale max / 127 and
// zero point 0; elsewhere, on a CPU, uint8 with the zero point that represents 0 exactly. Ranges
// are read from a cache, set by hand, or found by a calibration, which runs the network on sample
// data.
//
//   carnot_calibration* calibration;
//   carnot_calibration_create(network, config, &calibration);
//   for each sample: carnot_calibration_add(calibration, inputs);
//   carnot_calibration_finish(calibration, &options, ranges);
//   carnot_config_set_ranges(config, ranges);
//   carnot_config_set_flag(config, CARNOT_BUILD_QUANTIZED, true);
//
// One thread at a time an object.
#ifndef CARNOT_CALIBRATION_H_
#define CARNOT_CALIBRATION_H_

#include "carnot/builder.h"
#include "carnot/data.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a range is found from the histogram of a tensor. The first four are TensorRT's calibrators
// and give symmetric ranges.
typedef enum carnot_calibration_method {
  // The threshold that loses least information: Kullback-Leibler divergence between the
  // distribution and its form with 128 levels, all bins as counted.
  CARNOT_CALIBRATION_ENTROPY,
  // The same where zero, the most frequent value behind ReLU, does not dominate: the first bin
  // counts as the second.
  CARNOT_CALIBRATION_ENTROPY_2,
  CARNOT_CALIBRATION_MINMAX,  // the largest absolute value
  // The |quantile| of the absolute values that are at most |cutoff| times the largest.
  CARNOT_CALIBRATION_PERCENTILE,
  // The range [min, max] with the least mean squared error of the quantized tensor, and factors
  // that
  // equalize its channels where layers in 8 bits read it. The default of carnot's own tools.
  CARNOT_CALIBRATION_MSE,
} carnot_calibration_method;

typedef struct carnot_calibration_options {
  carnot_calibration_method method;
  double quantile;  // PERCENTILE: in (0, 1]
  double cutoff;    // PERCENTILE: in (0, 1]
} carnot_calibration_options;

// ---- ranges ----

// Ranges of tensors by name.
typedef struct carnot_ranges carnot_ranges;

// No ranges; the caller destroys them.
CARNOT_API carnot_status* carnot_ranges_create(carnot_ranges** out_ranges) CARNOT_MUST_USE;
// NULL is allowed.
CARNOT_API void carnot_ranges_destroy(carnot_ranges* ranges);
// The range of tensor |name| (copied); set again it is replaced. INVALID_ARGUMENT for a name that
// is empty or holds a line break, for NaN and infinities, and where min <= 0 <= max does not hold
// or the largest absolute value is below the least normal float32.
CARNOT_API carnot_status* carnot_ranges_set(carnot_ranges* ranges, const char* name, double min,
                                            double max) CARNOT_MUST_USE;
// False where |name| has no range.
CARNOT_API bool carnot_ranges_get(const carnot_ranges* ranges, const char* name, double* out_min,
                                  double* out_max);
// How the channels of a tensor become alike: divided by its factor, each channel of the tensor lies
// in [min, max], and the layers that read the tensor multiply it back.
typedef struct carnot_channel_factors {
  const float* factors;  // one for each channel, positive
  size_t count;
  double min, max;
} carnot_channel_factors;
// Gives tensor |name|, which has a range, factors (copied). A build uses them where they cost
// nothing: behind convolutions, GEMMs and norms whose weights take them up. NOT_FOUND without a
// range; INVALID_ARGUMENT as for carnot_ranges_set, without factors, and for one that is no
// positive normal float32.
CARNOT_API carnot_status* carnot_ranges_set_factors(
    carnot_ranges* ranges, const char* name, const carnot_channel_factors* factors) CARNOT_MUST_USE;
// False where |name| has no factors. They belong to |ranges| until the tensor is set again.
CARNOT_API bool carnot_ranges_get_factors(const carnot_ranges* ranges, const char* name,
                                          carnot_channel_factors* out_factors);
// The number of tensors, and their names in the order in which they were set; NULL past the last.
CARNOT_API size_t carnot_ranges_count(const carnot_ranges* ranges);
// See carnot_ranges_count.
CARNOT_API const char* carnot_ranges_name(const carnot_ranges* ranges, size_t index);
// Adds the ranges of a calibration cache: TensorRT's of any version ("TRT-8601-MinMaxCalibration",
// then lines "name: 3c010a14", the scale as float32 in hexadecimal; the range is ±127 scale), or
// Carnot's own ("Carnot-1-MseCalibration", lines "name: MIN MAX", both float32 in hexadecimal; with
// factors "name: MIN MAX MIN MAX F0 F1 …", the second range being that of the divided tensor).
// Names may hold ':'. INVALID_MODEL names the line.
CARNOT_API carnot_status* carnot_ranges_read(carnot_ranges* ranges, const char* text,
                                             size_t size) CARNOT_MUST_USE;
// The same from the file at |path|. IO where it cannot be read.
CARNOT_API carnot_status* carnot_ranges_load(carnot_ranges* ranges,
                                             const char* path) CARNOT_MUST_USE;
// The cache as text, to be freed by carnot_memory_free: TensorRT's form for its four methods, with
// its 8.6.1 as version, Carnot's for MSE. FAILED_PRECONDITION names a range that is not symmetric
// where the form needs it.
CARNOT_API carnot_status* carnot_ranges_print(const carnot_ranges* ranges,
                                              carnot_calibration_method method, char** out_text,
                                              size_t* out_size) CARNOT_MUST_USE;
// The same into a file, which appears complete or not at all.
CARNOT_API carnot_status* carnot_ranges_save(const carnot_ranges* ranges,
                                             carnot_calibration_method method,
                                             const char* path) CARNOT_MUST_USE;

// Borrows |ranges| for the builds of |config|, which quantize with them under
// CARNOT_BUILD_QUANTIZED; NULL: none. The build says which layers stay float because a range is
// missing, and which ranges name no tensor of the network.
CARNOT_API void carnot_config_set_ranges(carnot_config* config, const carnot_ranges* ranges);

// ---- calibration ----

typedef struct carnot_calibration carnot_calibration;

// What one tensor's quantization with a range costs, on the values that the calibration saw.
typedef struct carnot_calibration_tensor {
  const char* name;
  uint64_t count;             // of values
  double seen_min, seen_max;  // of all values
  double min, max;            // the range
  double clipped;             // share of the values outside the range
  double error;               // root mean square of the error by that of the values
  // The expected error of the layers that read it where its channels are equalized, by that where
  // they are not; 1: they are not.
  double equalized;
} carnot_calibration_tensor;

// Builds an engine that computes |network| in FP32 on the device of |config| (NULL: the defaults)
// and keeps every floating-point tensor of its main part. Dynamic dimensions may differ from sample
// to sample. The network must stay as it is until finish.
CARNOT_API carnot_status* carnot_calibration_create(
    const carnot_network* network, const carnot_config* config,
    carnot_calibration** out_calibration) CARNOT_MUST_USE;
// NULL is allowed.
CARNOT_API void carnot_calibration_destroy(carnot_calibration* calibration);
// Runs one sample: |inputs| in the order of the network's inputs, each borrowed for the call. The
// result does not depend on how samples are batched, on their order or on the number of threads.
// INVALID_ARGUMENT names the input, or the tensor and the sample where NaN or infinity arises.
CARNOT_API carnot_status* carnot_calibration_add(carnot_calibration* calibration,
                                                 const carnot_data* const* inputs) CARNOT_MUST_USE;
// The range of every tensor with a value other than 0, into |ranges|. FAILED_PRECONDITION without
// any sample; INVALID_ARGUMENT for options out of range.
CARNOT_API carnot_status* carnot_calibration_finish(carnot_calibration* calibration,
                                                    const carnot_calibration_options* options,
                                                    carnot_ranges* ranges) CARNOT_MUST_USE;
// After finish: the number of tensors with a range, and tensor |index|; the name belongs to the
// calibration. OUT_OF_RANGE past the last.
CARNOT_API size_t carnot_calibration_tensor_count(const carnot_calibration* calibration);
// See carnot_calibration_tensor_count.
CARNOT_API carnot_status* carnot_calibration_tensor_info(
    const carnot_calibration* calibration, size_t index,
    carnot_calibration_tensor* out_tensor) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_CALIBRATION_H_
