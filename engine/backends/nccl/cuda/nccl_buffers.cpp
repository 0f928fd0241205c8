#include "backends/nccl/cuda/nccl_buffers.hpp"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "backends/nccl/cuda/cuda.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

bool has_allocator(const NcclLibrary& library) { return library.call.mem_alloc && library.call.mem_free; }

constexpr int kWindowsOnDevice = 22800;
constexpr int kSaysNull = 22900;

/// Where NCCL makes no window it gives out none, or in 2.28 the handle of a plain registration, which no GPU can read.
/// In 2.27 every window is such a handle, and nothing tells.
bool is_window(const NcclLibrary& library, ncclWindow_t window) {
  if (!window || library.version < kWindowsOnDevice || library.version >= kSaysNull) return window != nullptr;
  cudaPointerAttributes attributes{};
  const bool is_on_device =
      cudaPointerGetAttributes(&attributes, window) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  cudaGetLastError();
  return is_on_device;
}

}  // namespace

NcclBuffer::NcclBuffer(const NcclLibrary& library, std::size_t bytes, std::string_view where, const char* what)
    : library_(library), bytes_(bytes) {
  void* memory = nullptr;
  std::string why;
  if (has_allocator(library)) {
    const ncclResult_t result = library.call.mem_alloc(&memory, bytes);
    if (result != ncclSuccess) why = library.call.get_error_string(result);
  } else {
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) why = cudaGetErrorString(error);
  }
  if (!why.empty()) {
    cudaGetLastError();  // it is told here
    std::size_t free = 0;
    std::size_t total = 0;
    const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
    if (!known || free < bytes)
      throw EnvironmentError(
          out_of_memory_message(where, what, bytes, known ? std::optional<std::size_t>(free) : std::nullopt));
    throw EnvironmentError(
        fmt::format("{}: allocating {} of {} bytes failed: {}; run with NCCL_DEBUG=WARN for NCCL's own account", where,
                    what, bytes, why));
  }
  memory_ = static_cast<std::byte*>(memory);
}

NcclBuffer::~NcclBuffer() {
  if (has_allocator(library_)) {
    library_.call.mem_free(memory_);
  } else {
    cudaFree(memory_);
  }
}

NcclRegistration::NcclRegistration(const NcclLibrary& library, const NcclComm& comm, std::string where,
                                   RegistrationMode kind, const NcclBuffer& send, const NcclBuffer& recv)
    : library_(library), comm_(comm), where_(std::move(where)), kind_(kind), send_{&send}, recv_{&recv} {
  enter(send_);
  enter(recv_);
}

NcclRegistration::~NcclRegistration() {
  if (!comm_.ends_in_order()) return;
  for (const RegisteredBuffer* one : {&send_, &recv_}) {
    if (one->handle) library_.call.comm_deregister(comm_.get(), one->handle);
    if (one->window) library_.call.comm_window_deregister(comm_.get(), one->window);
  }
}

void NcclRegistration::enter(RegisteredBuffer& one) {
  if (kind_ == RegistrationMode::local) {
    comm_.check(library_.call.comm_register(comm_.get(), one.buffer->data(), one.buffer->size(), &one.handle),
                "ncclCommRegister");
  } else if (kind_ == RegistrationMode::symmetric) {
    comm_.check(library_.call.comm_window_register(comm_.get(), one.buffer->data(), one.buffer->size(), &one.window,
                                                   NCCL_WIN_COLL_SYMMETRIC),
                "ncclCommWindowRegister");
    // NCCL goes on without a window where it can make none; that would not be what was asked for.
    if (!is_window(library_, one.window))
      throw EnvironmentError(
          fmt::format("{}: -R 2 (--local_register): NCCL makes no symmetric window: the GPUs cannot reach each other's "
                      "memory, or NCCL_CUMEM_ENABLE or NCCL_WIN_ENABLE is 0; see nvidia-smi topo -p2p r, or use -R 1",
                      where_));
  }
}

WindowAddress NcclRegistration::locate(const std::byte* at) const {
  for (const RegisteredBuffer* one : {&send_, &recv_})
    if (one->buffer->contains(at)) return {one->window, static_cast<std::size_t>(at - one->buffer->data())};
  throw std::logic_error("NcclRegistration::place: an address in neither buffer");
}

}  // namespace busbw
