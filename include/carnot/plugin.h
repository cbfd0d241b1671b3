// Plugins: operators from outside, written in C or C++, in a shared object or the program
// itself.
//
// A creator makes a plugin from fields; the plugin declares the types and dimensions of its
// outputs, computes them, and returns the fields that an engine stores to recreate it. A plugin
// library needs none of Carnot's symbols: the functions that it may call are passed to it. It
// exports
//
//   int32_t carnot_plugin_creators(const carnot_plugin_creator* const** out_creators);
//
// Every struct begins with its size and the version of the interface it was written for, and grows
// at its end only; functions that are absent (NULL) mean what their comment says. A function that
// returns bool returns false on failure with a message in |error|. |self| and |user| are the
// author's own. Text is UTF-8, shapes are in elements, sizes in bytes.
#ifndef CARNOT_PLUGIN_H_
#define CARNOT_PLUGIN_H_

#include "carnot/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct carnot_config carnot_config;    // carnot/builder.h
typedef struct carnot_network carnot_network;  // carnot/network.h
typedef struct carnot_value carnot_value;

// Of the structs below; libraries of versions CARNOT_PLUGIN_API_OLDEST to this one work.
#define CARNOT_PLUGIN_API_VERSION 1
#define CARNOT_PLUGIN_API_OLDEST  1

typedef struct carnot_plugin_error {
  char message[512];
} carnot_plugin_error;

// ---- fields ----

// Numbers and names of TensorRT's PluginFieldType. CHAR is text of |length| bytes; DIMS are
// carnot_dims; INT4 and FP4 hold two elements a byte.
typedef enum carnot_field_type {
  CARNOT_FIELD_FLOAT16,
  CARNOT_FIELD_FLOAT32,
  CARNOT_FIELD_FLOAT64,
  CARNOT_FIELD_INT8,
  CARNOT_FIELD_INT16,
  CARNOT_FIELD_INT32,
  CARNOT_FIELD_CHAR,
  CARNOT_FIELD_DIMS,
  CARNOT_FIELD_UNKNOWN,
  CARNOT_FIELD_BF16,
  CARNOT_FIELD_INT64,
  CARNOT_FIELD_FP8,
  CARNOT_FIELD_INT4,
  CARNOT_FIELD_FP4,
  CARNOT_FIELD_TYPE_COUNT
} carnot_field_type;

typedef struct carnot_plugin_field {
  const char* name;
  const void* data;  // |length| elements; NULL in a creator's list: no default
  carnot_field_type type;
  int32_t length;
} carnot_plugin_field;

// ---- tensors ----

typedef enum carnot_plugin_layout {
  CARNOT_PLUGIN_LINEAR,         // row-major: the last axis is dense
  CARNOT_PLUGIN_CHANNELS_LAST,  // axis 1 is dense
} carnot_plugin_layout;

// A type and layout of an operand that a plugin is asked to accept.
typedef struct carnot_plugin_format {
  carnot_dtype dtype;
  carnot_plugin_layout layout;
  int32_t rank;  // -1: not known
} carnot_plugin_format;

// Dimensions at build: the profile's optimum, with its ends. -1: decided while running.
typedef struct carnot_plugin_range {
  carnot_plugin_format format;
  carnot_dims min, opt, max;
} carnot_plugin_range;

// An operand at run time. Strides are in elements; |data| is NULL in on_shape_change and
// workspace_bytes, and for absent optional operands, whose rank is -1.
typedef struct carnot_plugin_tensor {
  carnot_plugin_format format;
  carnot_dims dims;
  int64_t strides[CARNOT_MAX_RANK];
  void* data;
} carnot_plugin_tensor;

// ---- dimensions as expressions ----

// An expression over the inputs' dimensions and the elements of shape inputs. Opaque.
typedef int64_t carnot_expr;

// TensorRT's DimensionOperation. EQUAL and LESS give 0 or 1; PROD is the product.
typedef enum carnot_expr_op {
  CARNOT_EXPR_SUM,
  CARNOT_EXPR_PROD,
  CARNOT_EXPR_MAX,
  CARNOT_EXPR_MIN,
  CARNOT_EXPR_SUB,
  CARNOT_EXPR_EQUAL,
  CARNOT_EXPR_LESS,
  CARNOT_EXPR_FLOOR_DIV,
  CARNOT_EXPR_CEIL_DIV,
} carnot_expr_op;

typedef struct carnot_exprs {
  size_t size;
  void* host;
  carnot_expr (*constant)(void* host, int64_t value);
  carnot_expr (*operation)(void* host, carnot_expr_op op, carnot_expr a, carnot_expr b);
  // True with *out_value when |e| is known now.
  bool (*value)(void* host, carnot_expr e, int64_t* out_value);
  // A size known at run time only: enqueue writes it to output |output|, a scalar of int32 or
  // int64. Memory is reserved for |max|.
  carnot_expr (*size_of_output)(void* host, int32_t output, carnot_expr opt, carnot_expr max);
} carnot_exprs;

typedef struct carnot_plugin_shape {
  int32_t rank;  // -1: an absent optional input
  carnot_expr dims[CARNOT_MAX_RANK];
  // The elements of a shape input (see shape_input); NULL where they are not known yet.
  const carnot_expr* values;
  int32_t value_count;
} carnot_plugin_shape;

// ---- running ----

// The threads of a run. parallel calls fn(arg, part) for part in [0, part_count) and returns when
// all are done; parts must not depend on one another nor on the number of threads.
typedef struct carnot_plugin_threads {
  size_t size;
  void* host;
  int32_t thread_count;
  void (*parallel)(void* host, int64_t part_count, void (*fn)(void* arg, int64_t part), void* arg);
} carnot_plugin_threads;

typedef struct carnot_plugin_run {
  size_t size;
  const carnot_plugin_tensor* inputs;
  const carnot_plugin_tensor* outputs;
  int32_t input_count, output_count;
  void* workspace;  // aligned to 64
  size_t workspace_bytes;
  const carnot_plugin_threads* threads;  // on a CPU; NULL on a GPU
  void* stream;                          // CUstream on a GPU; NULL on a CPU
} carnot_plugin_run;

typedef enum carnot_plugin_phase { CARNOT_PLUGIN_BUILD, CARNOT_PLUGIN_RUNTIME } carnot_plugin_phase;

// One plugin. Made by a creator or by the program, one thread at a time; clones run side by side.
// Required: name, version, output_count, output_dims, enqueue, serialize, destroy.
typedef struct carnot_plugin carnot_plugin;
struct carnot_plugin {
  size_t size;          // sizeof(carnot_plugin)
  int32_t api_version;  // CARNOT_PLUGIN_API_VERSION
  const char* name;     // of the creator that can make it again
  const char* version;
  const char* name_space;  // NULL: ""
  void* self;

  int32_t output_count;
  // Types of the outputs from those of the inputs. NULL: all are that of input 0.
  bool (*output_dtypes)(void* self, const carnot_dtype* inputs, int32_t input_count,
                        carnot_dtype* outputs, int32_t output_count, carnot_plugin_error* error);
  // Rank and dimensions of the outputs.
  bool (*output_dims)(void* self, const carnot_plugin_shape* inputs, int32_t input_count,
                      carnot_plugin_shape* outputs, int32_t output_count, const carnot_exprs* exprs,
                      carnot_plugin_error* error);
  // True: output_dims reads the elements of this input. NULL: of none.
  bool (*shape_input)(void* self, int32_t input);
  // Whether operand |position| (inputs, then outputs) may be as in |operands|, given those before
  // it. NULL: linear float32 everywhere.
  bool (*supports)(void* self, int32_t position, const carnot_plugin_format* operands,
                   int32_t input_count, int32_t output_count);
  // At build, once shapes and formats are chosen; what it changes should be in serialize. NULL:
  // nothing to do.
  bool (*configure)(void* self, const carnot_plugin_range* inputs, int32_t input_count,
                    const carnot_plugin_range* outputs, int32_t output_count,
                    carnot_plugin_error* error);
  // At run time, before enqueue, whenever dimensions change. NULL: nothing to do.
  bool (*on_shape_change)(void* self, const carnot_plugin_tensor* inputs, int32_t input_count,
                          const carnot_plugin_tensor* outputs, int32_t output_count,
                          carnot_plugin_error* error);
  // Scratch memory that enqueue needs at these dimensions. NULL: none.
  size_t (*workspace_bytes)(void* self, const carnot_plugin_tensor* inputs, int32_t input_count,
                            const carnot_plugin_tensor* outputs, int32_t output_count);
  // Computes (CPU) or queues (GPU) the outputs. Allocates nothing of Carnot's.
  bool (*enqueue)(void* self, const carnot_plugin_run* run, carnot_plugin_error* error);
  // The fields from which the creator makes this plugin again; they live until the next call.
  bool (*serialize)(void* self, const carnot_plugin_field** out_fields, int32_t* out_count,
                    carnot_plugin_error* error);
  // A copy with a state of its own, one for each context. NULL: the creator makes it from
  // serialize.
  carnot_plugin* (*clone)(void* self, carnot_plugin_error* error);
  void (*destroy)(void* self);
  // The input whose memory output |output| shares, or -1: at enqueue both have one address,
  // and it holds the input's elements. NULL: none.
  int32_t (*aliased_input)(void* self, int32_t output);
  // What distinguishes the time this plugin takes, beyond fields and shapes; NULL: nothing.
  const char* (*timing_key)(void* self);
};

// Makes plugins of one name, version and namespace. It and what it points to live as long as it is
// registered. Thread-safe.
typedef struct carnot_plugin_creator {
  size_t size;          // sizeof(carnot_plugin_creator)
  int32_t api_version;  // CARNOT_PLUGIN_API_VERSION
  const char* name;
  const char* version;     // "1"
  const char* name_space;  // NULL: ""
  const carnot_plugin_field* fields;
  int32_t field_count;
  void* user;
  // A plugin of this creator's name and version, the caller's own; NULL on failure. |name| is the
  // layer's and may be NULL; fields are borrowed for the call. Fields that the list lacks come too.
  carnot_plugin* (*create)(void* user, const char* name, const carnot_plugin_field* fields,
                           int32_t field_count, carnot_plugin_phase phase,
                           carnot_plugin_error* error);
} carnot_plugin_creator;

// What a plugin library exports under the name "carnot_plugin_creators": a list of creators and
// their number.
typedef int32_t (*carnot_plugin_creators_fn)(const carnot_plugin_creator* const** out_creators);
#define CARNOT_PLUGIN_CREATORS "carnot_plugin_creators"

// ---- the registry: one a process, thread-safe ----

typedef struct carnot_plugin_library carnot_plugin_library;

// Borrows |creator|. INVALID_ARGUMENT when its name, version and namespace are taken;
// VERSION_MISMATCH when it was written for another interface.
CARNOT_API carnot_status* carnot_plugin_register(const carnot_plugin_creator* creator)
    CARNOT_MUST_USE;
// FAILED_PRECONDITION while plugins of it live.
CARNOT_API carnot_status* carnot_plugin_deregister(const carnot_plugin_creator* creator)
    CARNOT_MUST_USE;
// Opens the shared object at |path| and registers its creators, in |name_space| where they name
// none (NULL: ""). A library that is loaded already is counted. UNSUPPORTED for one that needs
// TensorRT; IO, INVALID_MODEL or VERSION_MISMATCH name the library and what is wrong.
CARNOT_API carnot_status* carnot_plugin_library_load(
    const char* path, const char* name_space, carnot_plugin_library** out_library) CARNOT_MUST_USE;
// Takes one load back; the last deregisters the creators and closes. FAILED_PRECONDITION while
// plugins of it live.
CARNOT_API carnot_status* carnot_plugin_library_unload(carnot_plugin_library* library)
    CARNOT_MUST_USE;

// Registered creators, built-in ones included; NULL past the last.
CARNOT_API size_t carnot_plugin_creator_count(void);
// Creator |index| in the order of registration; NULL past the last.
CARNOT_API const carnot_plugin_creator* carnot_plugin_creator_at(size_t index);
// NOT_FOUND lists the nearest names and the versions there are. |name_space| NULL: "".
CARNOT_API carnot_status* carnot_plugin_find(
    const char* name, const char* version, const char* name_space,
    const carnot_plugin_creator** out_creator) CARNOT_MUST_USE;
// A new plugin by |creator|; the caller destroys it. INVALID_ARGUMENT names the field or carries
// the creator's message.
CARNOT_API carnot_status* carnot_plugin_create(const carnot_plugin_creator* creator,
                                               const char* layer_name,
                                               const carnot_plugin_field* fields,
                                               int32_t field_count,
                                               carnot_plugin** out_plugin) CARNOT_MUST_USE;
// Calls destroy of |plugin|; NULL is allowed.
CARNOT_API void carnot_plugin_destroy(carnot_plugin* plugin);

// Engines may carry plugin libraries (carnot_config_serialize_plugin_library). Their code is used
// only where the host allows it (off at first), when a plugin is missing; a library opened so stays
// loaded until the process ends.
CARNOT_API void carnot_plugin_allow_engine_code(bool allow);

// Puts the library at |path| into engines built with |config|; read at build.
CARNOT_API carnot_status* carnot_config_serialize_plugin_library(carnot_config* config,
                                                                 const char* path) CARNOT_MUST_USE;

// ---- networks ----

// A layer that computes |plugin|, whose fields are taken now: it may be destroyed afterwards. NULL
// inputs are absent. A built-in plugin becomes the operators that implement it. |out_values| has
// room for plugin->output_count.
CARNOT_API carnot_status* carnot_network_add_plugin(carnot_network* network,
                                                    const carnot_plugin* plugin,
                                                    carnot_value* const* inputs,
                                                    int32_t input_count,
                                                    carnot_value** out_values) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_PLUGIN_H_
