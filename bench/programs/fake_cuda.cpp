// Fake CUDA runtime for a machine without a GPU: devices that are connected by NVLink and use the host's memory.
// Kernels do not run. A benchmark measures the cost of the fast path's host code with this library. Tests check how the
// fast path queues kernels and manages memory, and which settings the engine chooses.
//
// BUSBW_PRETENDED_DEVICES: number of devices [default: 2].
// BUSBW_PRETENDED_MIB: memory of each device [default: 4096].
// BUSBW_PRETENDED_NVLINK=0: the devices are connected by PCI Express.
// BUSBW_PRETENDED_CAPABILITY: compute capability of the devices [default: 90 for 9.0].
// BUSBW_PRETENDED_LOG: file for each event, wait and launch with its stream. Streams from 1000 on are captured: 1000 to
// 1999 into graph 1, and so on. Nodes of graphs have numbers.
// BUSBW_PRETENDED_SETTING=1: acts as if the program makes a captured stream depend on a node of its own between two
// operations, instead of on the last operation.
// BUSBW_PRETENDED_MEMORY_LOG: file for each allocation and release of device memory, and "host" for a release of host
// memory.
// BUSBW_PRETENDED_IPC_LOG: file for each opening, closing and release of device memory that processes share, with its
// handle: process and address.
// BUSBW_PRETENDED_BUSY=1: queued work never completes.
// BUSBW_PRETENDED_OLD_ERROR=1: before each launch there is an unread error of an earlier call.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace {

thread_local int current_device = 0;

int number_from(const char* variable, int default_value) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : default_value;
}

int device_count() {
  static const int count = number_from("BUSBW_PRETENDED_DEVICES", 2);
  return count;
}

/// Appends lines to the file that a variable names, if it is set. Other processes may append to it, too.
class Log {
 public:
  explicit Log(const char* variable) {
    if (const char* const name = std::getenv(variable)) file_ = std::fopen(name, "a");
  }
  __attribute__((format(printf, 2, 3))) void write_line(const char* format, ...) {
    if (file_ == nullptr) return;
    std::va_list values;
    va_start(values, format);
    std::vfprintf(file_, format, values);
    va_end(values);
    std::fprintf(file_, "\n");
    std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
};

/// Log of queued operations.
Log& queue_log() {
  static Log log("BUSBW_PRETENDED_LOG");
  return log;
}

/// Log of memory that processes share.
Log& ipc_log() {
  static Log log("BUSBW_PRETENDED_IPC_LOG");
  return log;
}

/// Number of a stream, event, graph or node. The fake handles are these numbers.
template <class Handle>
unsigned long long number_of(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// Number of the graph into which a stream is captured. 0 if it is not captured.
std::uintptr_t graph_of(cudaStream_t stream) { return number_of(stream) / 1000; }

cudaGraphNode_t new_node() {
  static std::uintptr_t last_number = 0;
  return reinterpret_cast<cudaGraphNode_t>(++last_number);
}

/// Nodes on which the next operation of a captured stream depends.
std::vector<cudaGraphNode_t>& nodes_before(cudaStream_t stream) {
  static std::map<cudaStream_t, std::vector<cudaGraphNode_t>> nodes;
  return nodes[stream];
}

/// Makes a captured stream depend only on a new node, as a program may do, if BUSBW_PRETENDED_SETTING is 1.
void replace_nodes_before(cudaStream_t stream) {
  static const bool is_requested = number_from("BUSBW_PRETENDED_SETTING", 0) != 0;
  if (!is_requested || graph_of(stream) == 0 || nodes_before(stream).empty()) return;
  nodes_before(stream) = {new_node()};
  queue_log().write_line("stream %llu is set to follow node %llu", number_of(stream),
                         number_of(nodes_before(stream).front()));
}

cudaError_t last_error = cudaSuccess;

/// Logs a launch, or captures it into the stream's graph.
cudaError_t log_launch(cudaStream_t stream) {
  if (std::getenv("BUSBW_PRETENDED_OLD_ERROR")) last_error = cudaErrorInvalidValue;
  if (graph_of(stream) == 0) {
    queue_log().write_line("launch stream %llu", number_of(stream));
  } else {
    nodes_before(stream) = {new_node()};
    queue_log().write_line("capture stream %llu: node %llu", number_of(stream),
                           number_of(nodes_before(stream).front()));
  }
  return cudaSuccess;
}

using StateFunction = bool (*)();

/// Returns a function of the fake NCCL that tells a state. Null without the fake NCCL.
StateFunction find_nccl_function(const char* name) {
  const char* const path = std::getenv("BUSBW_NCCL_LIBRARY");
  void* const library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  return library ? reinterpret_cast<StateFunction>(dlsym(library, name)) : nullptr;
}

/// True if the operations of the fake NCCL have ended.
bool has_nccl_ended() {
  static const StateFunction has_ended = find_nccl_function("pretended_work_has_ended");
  return !has_ended || has_ended();
}

/// True if the fake NCCL says that the GPU has failed.
bool has_gpu_failed() {
  static const StateFunction has_failed = find_nccl_function("pretended_gpu_has_failed");
  return has_failed && has_failed();
}

cudaError_t allocate_host(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

/// Tracks the memory allocated on the devices.
class DeviceMemory {
 public:
  static DeviceMemory& instance() {
    static DeviceMemory memory;
    return memory;
  }
  cudaError_t allocate(void** memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::size_t& allocated_bytes = allocated_bytes_[current_device];
    if (allocated_bytes + bytes > limit_bytes_) {
      last_error = cudaErrorMemoryAllocation;
      return last_error;
    }
    if (const cudaError_t error = allocate_host(memory, bytes); error != cudaSuccess) return error;
    allocated_bytes += bytes;
    blocks_[*memory] = {current_device, bytes};
    log_.write_line("device %d +%zu", current_device, bytes);
    return cudaSuccess;
  }
  void log_host_free() {
    const std::lock_guard lock(mutex_);
    log_.write_line("host");
  }
  void query(std::size_t& free, std::size_t& total) {
    const std::lock_guard lock(mutex_);
    total = limit_bytes_;
    free = limit_bytes_ - allocated_bytes_[current_device];
  }
  void free(void* memory) {
    const std::lock_guard lock(mutex_);
    if (const auto block = blocks_.find(memory); block != blocks_.end()) {
      const auto [device, bytes] = block->second;
      allocated_bytes_[device] -= bytes;
      log_.write_line("device %d -%zu", device, bytes);
      blocks_.erase(block);
    }
    std::free(memory);
  }

 private:
  const std::size_t limit_bytes_ = static_cast<std::size_t>(number_from("BUSBW_PRETENDED_MIB", 4096)) << 20;
  Log log_{"BUSBW_PRETENDED_MEMORY_LOG"};
  std::mutex mutex_;
  std::map<int, std::size_t> allocated_bytes_;  // by device
  std::map<void*, std::pair<int, std::size_t>> blocks_;  // device and bytes of each allocation
};

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return device < device_count() ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "a fake GPU");
  const int capability = number_from("BUSBW_PRETENDED_CAPABILITY", 90);
  properties->major = capability / 10;
  properties->minor = capability % 10;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:00:%02x.0", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  *device = static_cast<int>(std::strtol(id + std::strlen("0000:00:"), nullptr, 16));
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can_access, int, int) {
  *can_access = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = number_from("BUSBW_PRETENDED_NVLINK", 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  queue_log().write_line("wait for the device");
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  DeviceMemory::instance().query(*free, *total);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return DeviceMemory::instance().allocate(memory, bytes); }
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return allocate_host(memory, bytes); }
cudaError_t cudaFree(void* memory) {
  ipc_log().write_line("free %d:%llx", static_cast<int>(getpid()), number_of(memory));
  DeviceMemory::instance().free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  DeviceMemory::instance().log_host_free();
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* memory, unsigned) {
  *device_pointer = memory;
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  *handle = {};
  std::snprintf(handle->reserved, sizeof handle->reserved, "%d:%llx", static_cast<int>(getpid()), number_of(memory));
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  *memory = new cudaIpcMemHandle_t(handle);
  ipc_log().write_line("open %s", handle.reserved);
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  auto* const handle = static_cast<cudaIpcMemHandle_t*>(memory);
  ipc_log().write_line("close %s", handle->reserved);
  delete handle;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) {
  static const bool is_busy = number_from("BUSBW_PRETENDED_BUSY", 0) != 0;
  if (has_gpu_failed()) return cudaErrorECCUncorrectable;
  const bool has_ended = !is_busy && has_nccl_ended();
  return has_ended ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
/// Fails for a captured stream, as in CUDA.
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (graph_of(stream) != 0) return cudaErrorStreamCaptureUnsupported;
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return cudaSuccess;
}
/// First call of every operation, so it also applies BUSBW_PRETENDED_SETTING.
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  replace_nodes_before(stream);
  *status = graph_of(stream) == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData**,
                                     std::size_t* count) {
  *id = graph_of(stream);
  *graph = reinterpret_cast<cudaGraph_t>(graph_of(stream));
  *nodes = nodes_before(stream).data();
  *count = nodes_before(stream).size();
  *status = graph_of(stream) == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                                                std::size_t, unsigned) {
  nodes_before(stream).push_back(*nodes);
  queue_log().write_line("stream %llu follows node %llu", number_of(stream), number_of(*nodes));
  return cudaSuccess;
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, std::size_t,
                                      cudaEvent_t event) {
  *node = new_node();
  queue_log().write_line("graph %llu waits for event %llu: node %llu", number_of(graph), number_of(event),
                         number_of(*node));
  return cudaSuccess;
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* predecessor,
                                        std::size_t, cudaEvent_t event) {
  *node = new_node();
  queue_log().write_line("graph %llu records event %llu behind node %llu: node %llu", number_of(graph),
                         number_of(event), number_of(*predecessor), number_of(*node));
  return cudaSuccess;
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                        const cudaGraphEdgeData*, std::size_t) {
  queue_log().write_line("node %llu no longer follows node %llu", number_of(*to), number_of(*from));
  return cudaSuccess;
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData*, std::size_t) {
  queue_log().write_line("node %llu follows node %llu", number_of(*to), number_of(*from));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static std::uintptr_t last_number = 0;
  *event = reinterpret_cast<cudaEvent_t>(++last_number);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventElapsedTime(float* time_ms, cudaEvent_t, cudaEvent_t) {
  *time_ms = 1;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  queue_log().write_line("record stream %llu event %llu", number_of(stream), number_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  queue_log().write_line("wait stream %llu event %llu", number_of(stream), number_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  queue_log().write_line("wait for event %llu", number_of(event));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return log_launch(stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  // Devices before 9.0 do not support the early start that the attributes request.
  if (config->numAttrs > 0 && number_from("BUSBW_PRETENDED_CAPABILITY", 90) < 90) return cudaErrorNotSupported;
  return log_launch(config->stream);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return cudaSuccess;
}
}
