#pragma once
// A rank's send and receive buffer, allocated for NCCL, and their registration with a communicator (-R). A registered
// buffer of -R 2 is a symmetric window, which the kernels of -D access by window and offset.
#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "backends/nccl/cuda/nccl_comm.hpp"
#include "backends/nccl/cuda/nccl_library.hpp"
#include "backends/nccl/nccl_options.hpp"

namespace busbw {

/// Memory of the current device from ncclMemAlloc, as in nccl-tests, or from cudaMalloc if the library has no
/// ncclMemAlloc.
class NcclBuffer {
 public:
  /// `purpose`: "a send buffer", for errors. Throws EnvironmentError with a remedy. `library` must outlive this.
  NcclBuffer(const NcclLibrary& library, std::size_t bytes, std::string_view rank_text, const char* purpose);
  ~NcclBuffer();
  NcclBuffer(const NcclBuffer&) = delete;
  NcclBuffer& operator=(const NcclBuffer&) = delete;

  std::byte* data() const { return memory_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {memory_, bytes_}; }
  bool contains(const std::byte* address) const { return address >= memory_ && address < memory_ + bytes_; }

 private:
  const NcclLibrary& library_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_;
};

/// Address in a registered buffer, in the form that kernels use.
struct WindowAddress {
  ncclWindow_t window = nullptr;
  std::size_t offset_bytes = 0;
};

/// Registration of both buffers with one communicator. All ranks of the communicator create theirs at the same time.
/// Destroy it before the communicator; aborting a communicator removes its registrations.
class NcclRegistration {
 public:
  /// Throws EnvironmentError. `library`, `comm`, `send` and `recv` must outlive this.
  NcclRegistration(const NcclLibrary& library, const NcclComm& comm, std::string rank_text, RegistrationMode mode,
                   const NcclBuffer& send, const NcclBuffer& recv);
  ~NcclRegistration();
  NcclRegistration(const NcclRegistration&) = delete;
  NcclRegistration& operator=(const NcclRegistration&) = delete;

  bool has_windows() const { return mode_ == RegistrationMode::symmetric; }
  /// Window and offset of an address. Throws std::logic_error if it lies in neither buffer.
  WindowAddress locate(const std::byte* address) const;

 private:
  struct RegisteredBuffer {
    const NcclBuffer* buffer;
    void* handle = nullptr;         // -R 1
    ncclWindow_t window = nullptr;  // -R 2
  };

  void register_buffer(RegisteredBuffer& registered);

  const NcclLibrary& library_;
  const NcclComm& comm_;
  std::string rank_text_;
  RegistrationMode mode_;
  RegisteredBuffer send_;
  RegisteredBuffer recv_;
};

}  // namespace busbw
