#pragma once
// A rank's send and receive buffer as NCCL likes them, and their registration with a communicator (-R).
#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "backends/nccl/cuda/nccl_comm.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

/// Memory of the current device from ncclMemAlloc, as in nccl-tests; from cudaMalloc where the library is older than
/// it.
class NcclBuffer {
 public:
  /// `what` it is for, as in "a send buffer". Throws EnvironmentError with what to do. `library` must outlive this.
  NcclBuffer(const NcclLibrary& library, std::size_t bytes, std::string_view where, const char* what);
  ~NcclBuffer();
  NcclBuffer(const NcclBuffer&) = delete;
  NcclBuffer& operator=(const NcclBuffer&) = delete;

  std::byte* data() const { return memory_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {memory_, bytes_}; }
  bool contains(const std::byte* at) const { return at >= memory_ && at < memory_ + bytes_; }

 private:
  const NcclLibrary& library_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_;
};

/// A place in a registered buffer, as kernels name it.
struct WindowAddress {
  ncclWindow_t window = nullptr;
  std::size_t offset_bytes = 0;
};

/// Both buffers' registration with one communicator. All ranks of the communicator make theirs at the same time. Ends
/// before the communicator does; one that is aborted takes it along.
class NcclRegistration {
 public:
  /// Throws EnvironmentError. Everything named must outlive this.
  NcclRegistration(const NcclLibrary& library, const NcclComm& comm, std::string where, RegistrationMode kind,
                   const NcclBuffer& send, const NcclBuffer& recv);
  ~NcclRegistration();
  NcclRegistration(const NcclRegistration&) = delete;
  NcclRegistration& operator=(const NcclRegistration&) = delete;

  /// Where in a symmetric window an address lies. Throws std::logic_error for one in neither buffer.
  WindowAddress locate(const std::byte* at) const;

 private:
  struct RegisteredBuffer {
    const NcclBuffer* buffer;
    void* handle = nullptr;         // -R 1
    ncclWindow_t window = nullptr;  // -R 2
  };

  void enter(RegisteredBuffer& one);

  const NcclLibrary& library_;
  const NcclComm& comm_;
  std::string where_;
  RegistrationMode kind_;
  RegisteredBuffer send_;
  RegisteredBuffer recv_;
};

}  // namespace busbw
