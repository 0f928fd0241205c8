// Asks NCCL for the addresses of a window, or reads them from NCCL 2.28's structure.
#include "fastpath/nccl/window_addresses.hpp"

#include <nccl_device.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// True if the real NCCL has the same major and minor version as the NCCL header of the build. A window's handle points
/// to a structure of NCCL, and that header declares the structure for its own version only.
bool matches_header_version(const RealNccl& nccl) {
  int version = 0;
  return nccl.get_version != nullptr && nccl.get_version(&version) == ncclSuccess &&
         version / 100 == NCCL_VERSION_CODE / 100;  // 22809 is 2.28.9
}

/// True if the handle points to a structure in device memory. Without symmetric memory (NCCL_CUMEM_ENABLE=0), NCCL 2.28
/// returns a handle of another kind, in host memory.
bool is_in_device_memory(ncclWindow_t window) {
  cudaPointerAttributes attributes{};
  const bool is_device =
      cudaPointerGetAttributes(&attributes, window) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  cudaGetLastError();  // clears the error that a host pointer may cause
  return is_device;
}

/// Copies NCCL's structure from device memory and computes the addresses from it. LSA (load/store accessible) ranks are
/// those with memory that is mapped here. The buffer of LSA rank r is at lsaFlatBase + r * stride, and NCCL stores the
/// stride in units of 4 GiB. LSA ranks are consecutive ranks of the communicator.
WindowAddresses read_addresses_from_handle(ncclWindow_t window, int ranks) {
  // Later fields differ between the 2.28 versions, so only the fields before this offset are read.
  constexpr std::size_t kReadBytes = offsetof(ncclWindow_vidmem, mcOffset4K);
  alignas(ncclWindow_vidmem) std::byte bytes[sizeof(ncclWindow_vidmem)] = {};
  const NonBlockingStream stream;
  check(cudaMemcpyAsync(bytes, window, kReadBytes, cudaMemcpyDeviceToHost, stream.get()),
        "reading a window's addresses");
  check(cudaStreamSynchronize(stream.get()), "reading a window's addresses");
  const auto& handle = *reinterpret_cast<const ncclWindow_vidmem*>(bytes);
  WindowAddresses addresses{};
  const std::int64_t stride_bytes = std::int64_t{handle.stride4G} << 32;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t lsa_rank = handle.lsaRank + rank - handle.worldRank;
    addresses[static_cast<std::size_t>(rank)] = handle.lsaFlatBase + lsa_rank * stride_bytes;
  }
  return addresses;
}

/// Queries the addresses through NCCL's function, which exists since 2.29.
WindowAddresses query_addresses(ncclWindow_t window, int ranks, const RealNccl& nccl) {
  WindowAddresses addresses{};
  for (int rank = 0; rank < ranks; ++rank) {
    void* address = nullptr;
    if (nccl.get_peer_device_pointer(window, 0, rank, &address) != ncclSuccess)
      throw EnvironmentError("NCCL does not report the address of a window");
    addresses[static_cast<std::size_t>(rank)] = static_cast<char*>(address);
  }
  return addresses;
}

}  // namespace

std::optional<WindowAddresses> window_addresses(ncclComm_t communicator, ncclWindow_t window, int ranks,
                                                const RealNccl& nccl) {
  if (nccl.team_lsa == nullptr) return std::nullopt;
  const bool can_query = nccl.get_peer_device_pointer != nullptr;
  if (!can_query && !(matches_header_version(nccl) && is_in_device_memory(window))) return std::nullopt;
  // NCCL has addresses only for the ranks of the LSA team.
  if (nccl.team_lsa(communicator).ranks != ranks) return std::nullopt;
  const WindowAddresses addresses =
      can_query ? query_addresses(window, ranks, nccl) : read_addresses_from_handle(window, ranks);
  const auto end = addresses.begin() + ranks;
  const bool has_missing_address = std::find(addresses.begin(), end, nullptr) != end;
  if (has_missing_address) return std::nullopt;
  return addresses;
}

}  // namespace busbw::fastpath
