// The functions of the backend table (backend/device.h says what each does): device.c, stream.c and
// graph.c.
#ifndef CARNOT_BACKEND_CUDA_DRIVER_BACKEND_H_
#define CARNOT_BACKEND_CUDA_DRIVER_BACKEND_H_

#include "backend/cuda/driver/cuda.h"

// Makes the device's context current.
carnot_status* carnot_cuda_enter(carnot_cuda* cuda) CARNOT_MUST_USE;

// Opens device |ordinal| or, below 0, describes an absent device of architecture |arch|.
carnot_status* carnot_cuda_device_open(int ordinal, const char* arch,
                                       carnot_device** out_device) CARNOT_MUST_USE;
void carnot_cuda_device_close(carnot_device* device);
// Device memory; OUT_OF_MEMORY names the bytes.
carnot_status* carnot_cuda_device_alloc(carnot_device* device, size_t bytes,
                                        void** out_address) CARNOT_MUST_USE;
void carnot_cuda_device_free(carnot_device* device, void* address);
// Pinned host memory.
carnot_status* carnot_cuda_host_alloc(carnot_device* device, size_t bytes,
                                      void** out_memory) CARNOT_MUST_USE;
void carnot_cuda_host_free(carnot_device* device, void* memory);
// Whether an address is device or host memory.
carnot_address carnot_cuda_address_kind(carnot_device* device, const void* address);
// A stream of its own; the modules that graph capture needs are loaded here.
carnot_status* carnot_cuda_stream_create(carnot_device* device,
                                         carnot_stream** out_stream) CARNOT_MUST_USE;
void carnot_cuda_stream_destroy(carnot_stream* base);
// Work goes to the caller's stream until stream_return.
void carnot_cuda_stream_borrow(carnot_stream* stream, void* handle);
void carnot_cuda_stream_return(carnot_stream* stream);
carnot_status* carnot_cuda_stream_copy(carnot_stream* stream, void* dst, const void* src,
                                       size_t bytes, carnot_copy_kind kind) CARNOT_MUST_USE;
carnot_status* carnot_cuda_stream_synchronize(carnot_stream* stream) CARNOT_MUST_USE;
// Whether the stream is being captured, by this module or by its owner.
bool carnot_cuda_stream_is_capturing(carnot_stream* stream);
// Captures what follows into a graph. The stream's own CUDA stream is captured: not every stream
// of a caller can be.
carnot_status* carnot_cuda_capture_begin(carnot_stream* stream) CARNOT_MUST_USE;
// Ends the capture and updates *graph, or instantiates a new one where its topology changed.
carnot_status* carnot_cuda_capture_end(carnot_stream* stream,
                                       carnot_device_graph** graph) CARNOT_MUST_USE;
carnot_status* carnot_cuda_graph_launch(carnot_stream* stream,
                                        carnot_device_graph* graph) CARNOT_MUST_USE;
void carnot_cuda_graph_destroy(carnot_stream* stream, carnot_device_graph* graph);
// Records event |index|; within a capture, each run of the graph records it.
carnot_status* carnot_cuda_stream_mark(carnot_stream* base, uint32_t index) CARNOT_MUST_USE;
// Nanoseconds between two recorded events.
carnot_status* carnot_cuda_stream_elapsed(carnot_stream* base, uint32_t first, uint32_t second,
                                          uint64_t* out_ns) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_DRIVER_BACKEND_H_
