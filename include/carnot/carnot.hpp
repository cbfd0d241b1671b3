// The C interface with owning handles for C++17: each frees itself, and a status that is not NULL
// is thrown as carnot::Error.
#ifndef CARNOT_CARNOT_HPP_
#define CARNOT_CARNOT_HPP_

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>

#include "carnot/builder.h"
#include "carnot/data.h"
#include "carnot/onnx.h"
#include "carnot/reference.h"
#include "carnot/runtime.h"

namespace carnot {

// The message of a status; code() is its code.
class Error : public std::runtime_error {
 public:
  Error(carnot_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  carnot_code code() const { return code_; }

 private:
  carnot_code code_;
};

// Throws unless |status| is NULL; frees it.
inline void check(carnot_status* status) {
  if (!status) return;
  Error error(carnot_status_code(status), carnot_status_message(status));
  carnot_status_free(status);
  throw error;
}

// Dimensions from a list. Throws INVALID_ARGUMENT for more than CARNOT_MAX_RANK.
inline carnot_dims dims(std::initializer_list<int64_t> sizes) {
  if (sizes.size() > CARNOT_MAX_RANK)
    throw Error(CARNOT_INVALID_ARGUMENT, "more than 8 dimensions");
  carnot_dims result{};
  for (int64_t size : sizes) result.d[result.rank++] = size;
  return result;
}

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};

using Network = std::unique_ptr<carnot_network, Deleter<carnot_network_destroy>>;
using Config = std::unique_ptr<carnot_config, Deleter<carnot_config_destroy>>;
using TimingCache = std::unique_ptr<carnot_timing_cache, Deleter<carnot_timing_cache_destroy>>;
using Engine = std::unique_ptr<carnot_engine, Deleter<carnot_engine_release>>;
using Context = std::unique_ptr<carnot_context, Deleter<carnot_context_destroy>>;
using Executor = std::unique_ptr<carnot_executor, Deleter<carnot_executor_destroy>>;
using Data = std::unique_ptr<carnot_data, Deleter<carnot_data_destroy>>;
using Reference = std::unique_ptr<carnot_reference, Deleter<carnot_reference_destroy>>;
using Refit = std::unique_ptr<carnot_refit, Deleter<carnot_refit_free>>;

// An empty network.
inline Network network() {
  carnot_network* handle = nullptr;
  check(carnot_network_create(&handle));
  return Network(handle);
}
// The network of the ONNX model at |path|.
inline Network parse_onnx(const std::string& path) {
  carnot_network* handle = nullptr;
  check(carnot_onnx_parse_file(path.c_str(), &handle));
  return Network(handle);
}
// A configuration with the defaults.
inline Config config() {
  carnot_config* handle = nullptr;
  check(carnot_config_create(&handle));
  return Config(handle);
}
// An engine built from |network|; |config| may be empty: the defaults.
inline Engine build(const Network& network, const Config& config = nullptr) {
  carnot_engine* handle = nullptr;
  check(carnot_build_engine(network.get(), config.get(), &handle));
  return Engine(handle);
}
// The engine in the file at |path|.
inline Engine load(const std::string& path) {
  carnot_engine* handle = nullptr;
  check(carnot_engine_load_file(path.c_str(), &handle));
  return Engine(handle);
}
// A context of |engine|; |threads| as in carnot_context_config.
inline Context context(const Engine& engine, int threads = 1) {
  carnot_context_config config{};
  config.thread_count = threads;
  carnot_context* handle = nullptr;
  check(carnot_context_create(engine.get(), &config, &handle));
  return Context(handle);
}

}  // namespace carnot

#endif  // CARNOT_CARNOT_HPP_
