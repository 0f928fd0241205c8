#include "fastpath/nccl/window_addresses.hpp"

#include <nccl_device.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// NCCL 2.28 tells kernels only, by what a window's handle points to; other versions may keep it in another form.
bool has_version_of_header(const RealNccl& nccl) {
  int version = 0;
  return nccl.get_version != nullptr && nccl.get_version(&version) == ncclSuccess &&
         version / 100 == NCCL_VERSION_CODE / 100;
}

/// Without symmetric memory (NCCL_CUMEM_ENABLE=0) 2.28 gives out a handle of another kind, in the host's memory.
bool is_on_device(ncclWindow_t window) {
  cudaPointerAttributes attributes{};
  const bool is =
      cudaPointerGetAttributes(&attributes, window) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  cudaGetLastError();
  return is;
}

WindowAddresses read_handle(ncclWindow_t window, int ranks) {
  // The fields behind are others in other versions of 2.28.
  constexpr std::size_t kUsed = offsetof(ncclWindow_vidmem, mcOffset4K);
  alignas(ncclWindow_vidmem) std::byte bytes[sizeof(ncclWindow_vidmem)] = {};
  const NonBlockingStream stream;
  check(cudaMemcpyAsync(bytes, window, kUsed, cudaMemcpyDeviceToHost, stream.get()), "reading where a window lies");
  check(cudaStreamSynchronize(stream.get()), "reading where a window lies");
  const auto& handle = *reinterpret_cast<const ncclWindow_vidmem*>(bytes);
  WindowAddresses places{};
  for (int r = 0; r < ranks; ++r)
    places[static_cast<std::size_t>(r)] =
        handle.lsaFlatBase +
        static_cast<std::int64_t>(handle.lsaRank + r - handle.worldRank) * (std::int64_t{handle.stride4G} << 32);
  return places;
}

WindowAddresses ask(ncclWindow_t window, int ranks, const RealNccl& nccl) {
  WindowAddresses places{};
  for (int r = 0; r < ranks; ++r) {
    void* place = nullptr;
    if (nccl.get_peer_device_pointer(window, 0, r, &place) != ncclSuccess)
      throw EnvironmentError("NCCL does not tell where a window lies");
    places[static_cast<std::size_t>(r)] = static_cast<char*>(place);
  }
  return places;
}

}  // namespace

std::optional<WindowAddresses> window_addresses(ncclComm_t communicator, ncclWindow_t window, int ranks, const RealNccl& nccl) {
  const bool tells = nccl.get_peer_device_pointer != nullptr;
  if (nccl.team_lsa == nullptr || (!tells && !(has_version_of_header(nccl) && is_on_device(window))))
    return std::nullopt;
  // Ranks beyond those that NCCL reaches by memory have no place.
  if (nccl.team_lsa(communicator).ranks != ranks) return std::nullopt;
  const WindowAddresses places = tells ? ask(window, ranks, nccl) : read_handle(window, ranks);
  if (std::find(places.begin(), places.begin() + ranks, nullptr) != places.begin() + ranks) return std::nullopt;
  return places;
}

}  // namespace busbw::fastpath
