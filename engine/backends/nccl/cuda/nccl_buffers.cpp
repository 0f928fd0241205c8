// Allocation and registration of a rank's buffers.
#include "backends/nccl/cuda/nccl_buffers.hpp"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "backends/nccl/cuda/cuda.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

bool has_nccl_allocator(const NcclLibrary& library) { return library.call.mem_alloc && library.call.mem_free; }

constexpr int kFirstVersionWithDeviceWindows = 22800;
constexpr int kFirstVersionWithNullWindow = 22900;

/// True if NCCL has created a window. If NCCL cannot, it returns null, or in 2.28 the handle of a local registration.
/// Such a handle is not in GPU memory, unlike a window. In 2.27 all windows are outside of GPU memory, so a missing
/// window cannot be detected.
bool is_window(const NcclLibrary& library, ncclWindow_t window) {
  const bool may_be_local_registration =
      library.version >= kFirstVersionWithDeviceWindows && library.version < kFirstVersionWithNullWindow;
  if (!window) return false;
  if (!may_be_local_registration) return true;
  cudaPointerAttributes attributes{};
  const bool is_on_device =
      cudaPointerGetAttributes(&attributes, window) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  cudaGetLastError();  // clears the error of a handle that is no CUDA pointer
  return is_on_device;
}

/// Throws the error of a failed allocation. The message has `reason` if CUDA reports at least `bytes` of free memory.
/// Otherwise it says that there is too little memory.
[[noreturn]] void throw_allocation_error(std::string_view rank_text, const char* purpose, std::size_t bytes,
                                         const std::string& reason) {
  cudaGetLastError();  // clears the error, which is reported here
  const std::optional<std::size_t> free_bytes = free_memory_bytes();
  if (!free_bytes || *free_bytes < bytes)
    throw EnvironmentError(out_of_memory_message(rank_text, purpose, bytes, free_bytes));
  throw EnvironmentError(
      fmt::format("{}: allocating {} of {} bytes failed: {}; run with NCCL_DEBUG=WARN to see NCCL's message", rank_text,
                  purpose, bytes, reason));
}

}  // namespace

NcclBuffer::NcclBuffer(const NcclLibrary& library, std::size_t bytes, std::string_view rank_text, const char* purpose)
    : library_(library), bytes_(bytes) {
  void* memory = nullptr;
  std::string reason;
  if (has_nccl_allocator(library)) {
    const ncclResult_t result = library.call.mem_alloc(&memory, bytes);
    if (result != ncclSuccess) reason = library.call.get_error_string(result);
  } else {
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) reason = cudaGetErrorString(error);
  }
  if (!reason.empty()) throw_allocation_error(rank_text, purpose, bytes, reason);
  memory_ = static_cast<std::byte*>(memory);
}

NcclBuffer::~NcclBuffer() {
  if (has_nccl_allocator(library_)) {
    library_.call.mem_free(memory_);
  } else {
    cudaFree(memory_);
  }
}

NcclRegistration::NcclRegistration(const NcclLibrary& library, const NcclComm& comm, std::string rank_text,
                                   RegistrationMode mode, const NcclBuffer& send, const NcclBuffer& recv)
    : library_(library), comm_(comm), rank_text_(std::move(rank_text)), mode_(mode), send_{&send}, recv_{&recv} {
  register_buffer(send_);
  register_buffer(recv_);
}

NcclRegistration::~NcclRegistration() {
  if (!comm_.ends_normally()) return;
  for (const RegisteredBuffer* registered : {&send_, &recv_}) {
    if (registered->handle) library_.call.comm_deregister(comm_.get(), registered->handle);
    if (registered->window) library_.call.comm_window_deregister(comm_.get(), registered->window);
  }
}

void NcclRegistration::register_buffer(RegisteredBuffer& registered) {
  if (mode_ == RegistrationMode::local) {
    comm_.check(library_.call.comm_register(comm_.get(), registered.buffer->data(), registered.buffer->size(),
                                            &registered.handle),
                "ncclCommRegister");
  } else if (mode_ == RegistrationMode::symmetric) {
    comm_.check(library_.call.comm_window_register(comm_.get(), registered.buffer->data(), registered.buffer->size(),
                                                   &registered.window, NCCL_WIN_COLL_SYMMETRIC),
                "ncclCommWindowRegister");
    // NCCL continues without a window if it cannot create one, but -R 2 requires it.
    if (!is_window(library_, registered.window))
      throw EnvironmentError(
          fmt::format("{}: -R 2 (--local_register): NCCL makes no symmetric window: the GPUs cannot reach each other's "
                      "memory, or NCCL_CUMEM_ENABLE or NCCL_WIN_ENABLE is 0; check nvidia-smi topo -p2p r, or use -R 1",
                      rank_text_));
  }
}

WindowAddress NcclRegistration::locate(const std::byte* address) const {
  for (const RegisteredBuffer* registered : {&send_, &recv_})
    if (registered->buffer->contains(address))
      return {registered->window, static_cast<std::size_t>(address - registered->buffer->data())};
  throw std::logic_error("NcclRegistration::locate: the address is in neither buffer");
}

}  // namespace busbw
