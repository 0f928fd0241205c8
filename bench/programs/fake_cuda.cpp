// CUDA's runtime for a machine that has no GPU: devices joined by NVLink, of which each has the host's memory. For what the
// fast path's host code costs, and for tests of what it queues and holds and of what the engine decides; nothing is launched.
//
// BUSBW_PRETENDED_DEVICES says how many there are, 2 without it, and BUSBW_PRETENDED_MIB how much memory each has.
// BUSBW_PRETENDED_NVLINK=0: PCI Express joins them.
// BUSBW_PRETENDED_CAPABILITY is the devices' compute capability, 90 (9.0) without it.
// BUSBW_PRETENDED_LOG names a file to which each event, wait and launch is written with its stream. Streams from 1000 on are
// captured, those from 1000 to 1999 into graph 1 and so on; nodes of graphs have numbers.
// BUSBW_PRETENDED_SETTING=1: between two operations on a captured stream the program sets what it follows to a node of its own.
// BUSBW_PRETENDED_MEMORY_LOG names a file to which each allocation on a device and its end are written, and "host" where memory
// of the host is freed.
// BUSBW_PRETENDED_IPC_LOG names a file to which each opening, closing and freeing of memory on a device is written that processes
// share, with its handle: the process and the address there.
// BUSBW_PRETENDED_BUSY=1: what is queued never ends.
// BUSBW_PRETENDED_OLD_ERROR=1: at each launch there is the error of some call before, for which nobody has asked yet.
#include <cuda_runtime_api.h>
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

int number_from(const char* variable, int without) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : without;
}

int devices() {
  static const int count = number_from("BUSBW_PRETENDED_DEVICES", 2);
  return count;
}

/// The file that a variable names, if there is one: others may write there, too.
class Log {
 public:
  explicit Log(const char* variable) {
    if (const char* const name = std::getenv(variable)) file_ = std::fopen(name, "a");
  }
  __attribute__((format(printf, 2, 3))) void note(const char* format, ...) {
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

/// Of what is queued.
Log& queue() {
  static Log log("BUSBW_PRETENDED_LOG");
  return log;
}

/// Of memory that processes share.
Log& shared() {
  static Log log("BUSBW_PRETENDED_IPC_LOG");
  return log;
}

/// Of a stream, an event, a graph or a node: these are numbers.
template <class Handle>
unsigned long long number_of(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

/// Of the graph into which a stream is captured; 0: none.
std::uintptr_t graph_of(cudaStream_t stream) { return number_of(stream) / 1000; }

cudaGraphNode_t new_node() {
  static std::uintptr_t made = 0;
  return reinterpret_cast<cudaGraphNode_t>(++made);
}

/// Behind which a captured stream goes on.
std::vector<cudaGraphNode_t>& nodes_before(cudaStream_t stream) {
  static std::map<cudaStream_t, std::vector<cudaGraphNode_t>> nodes;
  return nodes[stream];
}

/// The program's own, between two operations.
void set_node_before(cudaStream_t stream) {
  static const bool is_done = number_from("BUSBW_PRETENDED_SETTING", 0) != 0;
  if (!is_done || graph_of(stream) == 0 || nodes_before(stream).empty()) return;
  nodes_before(stream) = {new_node()};
  queue().note("stream %llu is set to follow node %llu", number_of(stream), number_of(nodes_before(stream).front()));
}

cudaError_t last_error = cudaSuccess;

cudaError_t launched(cudaStream_t stream) {
  if (std::getenv("BUSBW_PRETENDED_OLD_ERROR")) last_error = cudaErrorInvalidValue;
  if (graph_of(stream) == 0) {
    queue().note("launch stream %llu", number_of(stream));
  } else {
    nodes_before(stream) = {new_node()};
    queue().note("capture stream %llu: node %llu", number_of(stream), number_of(nodes_before(stream).front()));
  }
  return cudaSuccess;
}

cudaError_t allocated(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

/// What is allocated on the devices.
class DeviceMemory {
 public:
  static DeviceMemory& of_all() {
    static DeviceMemory memory;
    return memory;
  }
  cudaError_t allocate(void** memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::size_t& held = held_bytes_[current_device];
    if (held + bytes > limit_bytes_) return last_error = cudaErrorMemoryAllocation;
    if (const cudaError_t error = allocated(memory, bytes); error != cudaSuccess) return error;
    held += bytes;
    blocks_[*memory] = {current_device, bytes};
    log_.note("device %d +%zu", current_device, bytes);
    return cudaSuccess;
  }
  void note_host_freed() {
    const std::lock_guard lock(mutex_);
    log_.note("host");
  }
  void tell(std::size_t& free, std::size_t& total) {
    const std::lock_guard lock(mutex_);
    total = limit_bytes_;
    free = limit_bytes_ - held_bytes_[current_device];
  }
  void free(void* memory) {
    const std::lock_guard lock(mutex_);
    if (const auto found = blocks_.find(memory); found != blocks_.end()) {
      const auto [device, bytes] = found->second;
      held_bytes_[device] -= bytes;
      log_.note("device %d -%zu", device, bytes);
      blocks_.erase(found);
    }
    std::free(memory);
  }

 private:
  const std::size_t limit_bytes_ = static_cast<std::size_t>(number_from("BUSBW_PRETENDED_MIB", 4096)) << 20;
  Log log_{"BUSBW_PRETENDED_MEMORY_LOG"};
  std::mutex mutex_;
  std::map<int, std::size_t> held_bytes_;
  std::map<void*, std::pair<int, std::size_t>> blocks_;
};

}  // namespace

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return device < devices() ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "a GPU that is pretended");
  const int number = number_from("BUSBW_PRETENDED_CAPABILITY", 90);
  properties->major = number / 10;
  properties->minor = number % 10;
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
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = number_from("BUSBW_PRETENDED_NVLINK", 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  queue().note("wait for the device");
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return cudaSuccess;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  DeviceMemory::of_all().tell(*free, *total);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return DeviceMemory::of_all().allocate(memory, bytes); }
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return allocated(memory, bytes); }
cudaError_t cudaFree(void* memory) {
  shared().note("free %d:%llx", static_cast<int>(getpid()), number_of(memory));
  DeviceMemory::of_all().free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  DeviceMemory::of_all().note_host_freed();
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** seen, void* memory, unsigned) {
  *seen = memory;
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  *handle = {};
  std::snprintf(handle->reserved, sizeof handle->reserved, "%d:%llx", static_cast<int>(getpid()), number_of(memory));
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  *memory = new cudaIpcMemHandle_t(handle);
  shared().note("open %s", handle.reserved);
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  auto* const handle = static_cast<cudaIpcMemHandle_t*>(memory);
  shared().note("close %s", handle->reserved);
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
  return is_busy ? cudaErrorNotReady : cudaSuccess;
}
/// CUDA refuses it of a stream that is being captured.
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (graph_of(stream) != 0) return cudaErrorStreamCaptureUnsupported;
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return cudaSuccess;
}
/// The first that is asked for an operation.
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  set_node_before(stream);
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
  queue().note("stream %llu follows node %llu", number_of(stream), number_of(*nodes));
  return cudaSuccess;
}
cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, std::size_t,
                                      cudaEvent_t event) {
  *node = new_node();
  queue().note("graph %llu waits for event %llu: node %llu", number_of(graph), number_of(event), number_of(*node));
  return cudaSuccess;
}
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* behind,
                                        std::size_t, cudaEvent_t event) {
  *node = new_node();
  queue().note("graph %llu records event %llu behind node %llu: node %llu", number_of(graph), number_of(event),
               number_of(*behind), number_of(*node));
  return cudaSuccess;
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                        const cudaGraphEdgeData*, std::size_t) {
  queue().note("node %llu no longer follows node %llu", number_of(*to), number_of(*from));
  return cudaSuccess;
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData*, std::size_t) {
  queue().note("node %llu follows node %llu", number_of(*to), number_of(*from));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static std::uintptr_t made = 0;
  *event = reinterpret_cast<cudaEvent_t>(++made);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventElapsedTime(float* time_ms, cudaEvent_t, cudaEvent_t) {
  *time_ms = 1;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  queue().note("record stream %llu event %llu", number_of(stream), number_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  queue().note("wait stream %llu event %llu", number_of(stream), number_of(event));
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  queue().note("wait for event %llu", number_of(event));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return launched(stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  // Of what attributes ask for: devices before 9.0 start no kernel early.
  if (config->numAttrs > 0 && number_from("BUSBW_PRETENDED_CAPABILITY", 90) < 90) return cudaErrorNotSupported;
  return launched(config->stream);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  return cudaSuccess;
}
}
