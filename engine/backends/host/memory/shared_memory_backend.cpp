// Reserves the shared memory of all ranks, and creates communicators over it.
#include "backends/host/memory/shared_memory_backend.hpp"

#include <stdexcept>
#include <utility>

#include "backends/host/memory/shared_memory_communicator.hpp"
#include "common/os/processors.hpp"

namespace busbw {

SharedMemoryBackend::SharedMemoryBackend(int processes, int threads_per_process, std::string version,
                                         int further_layers, int concurrent_layers)
    : HostBackend(std::move(version)),
      processes_(processes),
      ranks_(processes * threads_per_process),
      layers_(1 + further_layers),
      concurrent_layers_(concurrent_layers),
      cache_bytes_(last_cache_bytes()) {}

std::vector<std::string> SharedMemoryBackend::warnings() const {
  const auto warning = oversubscription_warning(ranks_, static_cast<int>(allowed_processors().size()));
  return warning ? std::vector{*warning} : std::vector<std::string>{};
}

void SharedMemoryBackend::reserve(int ranks, std::size_t buffer_bytes) {
  if (workspace_) throw std::logic_error("SharedMemoryBackend::reserve: called twice");
  if (ranks != ranks_)
    throw std::logic_error("SharedMemoryBackend::reserve: the rank count differs from the constructor's");
  workspace_ = std::make_unique<Workspace>(ranks, buffer_bytes, processes_ > 1 ? Sharing::processes : Sharing::threads,
                                           layers_, concurrent_layers_);
}

std::unique_ptr<Communicator> SharedMemoryBackend::connect_layer(Team& world, Team& group, int layer) {
  if (!workspace_) throw std::logic_error("SharedMemoryBackend::connect: call reserve first");
  return std::make_unique<SharedMemoryCommunicator>(*workspace_, world, all_gather_values(group, world.rank()),
                                                    group.rank(), cache_bytes_, layer);
}

}  // namespace busbw
