#include "fastpath/window_peers.hpp"

#include <algorithm>

#include "fastpath/cuda_check.hpp"
#include "fastpath/window_lookup.hpp"

namespace busbw::fastpath {
namespace {

/// Versions 2.28.1 and 2.28.9 keep windows in one form.
bool has_version_of_header(const RealNccl& nccl) {
  int version = 0;
  return nccl.get_version != nullptr && nccl.get_version(&version) == ncclSuccess &&
         version / 100 == NCCL_VERSION_CODE / 100;
}

WindowPlaces ask_by_kernel(ncclWindow_t window, int ranks) {
  const OwnStream stream;
  void* memory = nullptr;
  check(cudaMalloc(&memory, sizeof(WindowPlaces)), "allocating memory for a window's addresses");
  WindowPlaces places{};
  cudaError_t error = launch_lookup(window, ranks, static_cast<char**>(memory), stream.get());
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(places.data(), memory, sizeof(char*) * static_cast<std::size_t>(ranks),
                            cudaMemcpyDeviceToHost, stream.get());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream.get());
  cudaFree(memory);
  check(error, "asking for a window's addresses");
  return places;
}

WindowPlaces ask_nccl(ncclWindow_t window, int ranks, const RealNccl& nccl) {
  WindowPlaces places{};
  for (int r = 0; r < ranks; ++r) {
    void* place = nullptr;
    if (nccl.get_peer_device_pointer(window, 0, r, &place) != ncclSuccess)
      throw EnvironmentError("NCCL does not tell where a window lies");
    places[static_cast<std::size_t>(r)] = static_cast<char*>(place);
  }
  return places;
}

}  // namespace

std::optional<WindowPlaces> peers_of(ncclWindow_t window, int ranks, const RealNccl& nccl) {
  WindowPlaces places{};
  if (nccl.get_peer_device_pointer != nullptr)
    places = ask_nccl(window, ranks, nccl);
  else if (has_version_of_header(nccl))
    places = ask_by_kernel(window, ranks);
  // Null: a rank that NCCL itself reaches by messages only.
  if (std::find(places.begin(), places.begin() + ranks, nullptr) != places.begin() + ranks) return std::nullopt;
  return places;
}

}  // namespace busbw::fastpath
