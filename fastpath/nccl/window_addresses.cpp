#include "fastpath/nccl/window_addresses.hpp"

#include <nccl_device.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// True if the real NCCL has the version of the header. NCCL 2.28 stores the addresses only in the structure that a
/// window's handle points to, and other versions may use another structure.
bool has_version_of_header(const RealNccl& nccl) {
  int version = 0;
  return nccl.get_version != nullptr && nccl.get_version(&version) == ncclSuccess &&
         version / 100 == NCCL_VERSION_CODE / 100;
}

/// True if the handle points to device memory. Without symmetric memory (NCCL_CUMEM_ENABLE=0), NCCL 2.28 returns
/// another kind of handle, in host memory.
bool is_on_device(ncclWindow_t window) {
  cudaPointerAttributes attributes{};
  const bool is_device =
      cudaPointerGetAttributes(&attributes, window) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  cudaGetLastError();
  return is_device;
}

WindowAddresses read_handle(ncclWindow_t window, int ranks) {
  // Later fields differ between the 2.28 versions, so only the fields before this offset are read.
  constexpr std::size_t kUsed = offsetof(ncclWindow_vidmem, mcOffset4K);
  alignas(ncclWindow_vidmem) std::byte bytes[sizeof(ncclWindow_vidmem)] = {};
  const NonBlockingStream stream;
  check(cudaMemcpyAsync(bytes, window, kUsed, cudaMemcpyDeviceToHost, stream.get()), "reading a window's addresses");
  check(cudaStreamSynchronize(stream.get()), "reading a window's addresses");
  const auto& handle = *reinterpret_cast<const ncclWindow_vidmem*>(bytes);
  WindowAddresses addresses{};
  for (int r = 0; r < ranks; ++r)
    addresses[static_cast<std::size_t>(r)] =
        handle.lsaFlatBase +
        static_cast<std::int64_t>(handle.lsaRank + r - handle.worldRank) * (std::int64_t{handle.stride4G} << 32);
  return addresses;
}

WindowAddresses query_addresses(ncclWindow_t window, int ranks, const RealNccl& nccl) {
  WindowAddresses addresses{};
  for (int r = 0; r < ranks; ++r) {
    void* address = nullptr;
    if (nccl.get_peer_device_pointer(window, 0, r, &address) != ncclSuccess)
      throw EnvironmentError("NCCL does not report the address of a window");
    addresses[static_cast<std::size_t>(r)] = static_cast<char*>(address);
  }
  return addresses;
}

}  // namespace

std::optional<WindowAddresses> window_addresses(ncclComm_t communicator, ncclWindow_t window, int ranks,
                                                const RealNccl& nccl) {
  const bool has_query = nccl.get_peer_device_pointer != nullptr;
  if (nccl.team_lsa == nullptr || (!has_query && !(has_version_of_header(nccl) && is_on_device(window))))
    return std::nullopt;
  // NCCL has no addresses for ranks that it cannot access by memory.
  if (nccl.team_lsa(communicator).ranks != ranks) return std::nullopt;
  const WindowAddresses addresses = has_query ? query_addresses(window, ranks, nccl) : read_handle(window, ranks);
  if (std::find(addresses.begin(), addresses.begin() + ranks, nullptr) != addresses.begin() + ranks)
    return std::nullopt;
  return addresses;
}

}  // namespace busbw::fastpath
