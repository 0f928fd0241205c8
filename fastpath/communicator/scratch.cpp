// Allocates scratch memory, shares it with the peers, and reuses it for later communicators.
#include "fastpath/communicator/scratch.hpp"

#include <cstring>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

/// Size of a lane's tags: one for each block.
constexpr std::size_t kTagsBytes = kMaxBlocks * sizeof(std::uint64_t);

/// True if NVLink connects this device with the peer's GPU. CUDA reports native atomic operations on peer memory over
/// NVLink but not over PCI Express. CUDA does not list GPUs that are hidden from this process, so NVML is queried for
/// these GPUs.
bool is_linked(int device, const RankCapabilities& own, const RankCapabilities& peer, const Nvml& nvml) {
  int peer_device = 0;
  if (cudaDeviceGetByPCIBusId(&peer_device, peer.bus_id.data()) != cudaSuccess)
    return nvml.are_joined_by_nvlink(own.bus_id.data(), peer.bus_id.data());
  int can_access = 0;
  if (cudaDeviceCanAccessPeer(&can_access, device, peer_device) != cudaSuccess || can_access == 0) return false;
  int has_atomics = 0;
  const cudaError_t error =
      cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported, device, peer_device);
  return error == cudaSuccess && has_atomics != 0;
}

}  // namespace

bool are_linked(const std::vector<RankCapabilities>& ranks, int rank, int device, const Nvml& nvml) {
  const RankCapabilities& own = ranks[static_cast<std::size_t>(rank)];
  bool are_all_linked = true;
  for (int peer = 0; are_all_linked && peer < static_cast<int>(ranks.size()); ++peer)
    if (peer != rank) are_all_linked = is_linked(device, own, ranks[static_cast<std::size_t>(peer)], nvml);
  cudaGetLastError();  // clears the error of a failed query
  return are_all_linked;
}

std::size_t Scratch::bytes_for(int ranks, int cells) { return kLanes * (lane_bytes(ranks, cells) + kTagsBytes); }

std::mutex& ScratchPool::allocation_mutex(int device) {
  const std::lock_guard lock(mutex_);
  return allocation_mutexes_[device];
}

void ScratchPool::close_unused(int device) {
  std::vector<char*> unused;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(opened_memories_, [&](const auto& entry) {
      const auto& [device_and_handle, opened] = entry;
      const bool is_removed = device_and_handle.first == device && opened.user_count == 0;
      if (is_removed) unused.push_back(opened.memory);
      return is_removed;
    });
  }
  for (char* const memory : unused) cudaIpcCloseMemHandle(memory);
  cudaGetLastError();
}

void ScratchPool::clear(int device) {
  close_unused(device);
  std::vector<ScratchMemory> removed;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(pooled_memories_, [&](const auto& entry) {
      const auto& [device_and_bytes, memory] = entry;
      const bool is_removed = device_and_bytes.first == device;
      if (is_removed) removed.push_back(memory);
      return is_removed;
    });
  }
  for (const ScratchMemory& memory : removed) {
    cudaFree(memory.slots);
    cudaFreeHost(memory.aborted);
  }
  cudaGetLastError();
}

void ScratchPool::prepare(int device, std::size_t bytes) {
  const std::lock_guard allocation_lock(allocation_mutex(device));
  {
    const std::lock_guard lock(mutex_);
    if (pooled_memories_.contains({device, bytes})) return;
  }
  close_unused(device);
}

ScratchMemory ScratchPool::take(int device, std::size_t bytes) {
  // Memory of other sizes in the pool is freed before more is allocated. Otherwise the GPU's budget would be exceeded.
  const std::lock_guard allocation_lock(allocation_mutex(device));
  {
    const std::lock_guard lock(mutex_);
    if (const auto entry = pooled_memories_.find({device, bytes}); entry != pooled_memories_.end()) {
      const ScratchMemory memory = entry->second;
      pooled_memories_.erase(entry);
      return memory;
    }
  }
  clear(device);
  void* slots = nullptr;
  void* flag = nullptr;
  check(cudaMalloc(&slots, bytes), "allocating scratch memory");
  if (const cudaError_t error =
          cudaHostAlloc(&flag, sizeof(std::uint32_t), cudaHostAllocMapped | cudaHostAllocPortable);
      error != cudaSuccess) {
    cudaFree(slots);
    check(error, "allocating a flag");
  }
  return {static_cast<char*>(slots), static_cast<std::uint32_t*>(flag)};
}

char* ScratchPool::open_peer_memory(int device, const std::array<unsigned char, 64>& handle) {
  const std::lock_guard lock(mutex_);
  OpenedMemory& opened = opened_memories_[{device, handle}];
  if (opened.memory == nullptr) {
    cudaIpcMemHandle_t cuda_handle;
    static_assert(sizeof cuda_handle == sizeof handle);
    std::memcpy(&cuda_handle, handle.data(), sizeof cuda_handle);
    void* memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, cuda_handle, cudaIpcMemLazyEnablePeerAccess), "opening a peer's memory");
    opened.memory = static_cast<char*>(memory);
  }
  ++opened.user_count;
  return opened.memory;
}

void ScratchPool::release_peer_memory(int device, const std::array<unsigned char, 64>& handle) {
  const std::lock_guard lock(mutex_);
  --opened_memories_[{device, handle}].user_count;
}

void ScratchPool::put_back(int device, std::size_t bytes, ScratchMemory memory) {
  const std::lock_guard lock(mutex_);
  pooled_memories_.insert({{device, bytes}, memory});
}

Scratch::Scratch(int ranks, int cells, std::uint64_t tags_begin, ScratchPool& pool)
    : pool_(pool), ranks_(ranks), cells_(cells), tags_begin_(tags_begin) {
  check(cudaGetDevice(&device_), "getting the current GPU");
  const std::size_t bytes = bytes_for(ranks, cells);
  memory_ = pool.take(device_, bytes);
  *memory_.aborted = 0;
  try {
    // The memory is cleared before peers learn its address. An empty slot has tag 0, and the first tag used is not 0.
    const NonBlockingStream stream;
    const std::vector<std::uint64_t> initial_tags(kLanes * kMaxBlocks, tags_begin);
    check(cudaMemsetAsync(memory_.slots, 0, bytes, stream.get()), "clearing scratch memory");
    const std::size_t tags_bytes = initial_tags.size() * sizeof initial_tags[0];
    check(cudaMemcpyAsync(memory_.slots + bytes - tags_bytes, initial_tags.data(), tags_bytes, cudaMemcpyHostToDevice,
                          stream.get()),
          "writing the first tags");
    check(cudaStreamSynchronize(stream.get()), "clearing scratch memory");
  } catch (...) {
    pool.put_back(device_, bytes, memory_);
    throw;
  }
}

Scratch::~Scratch() {
  // After an abort, peers may still write into this memory, and this rank's kernels may still write into theirs and
  // read the flag. So the memory is leaked.
  if (is_aborted() || is_leaked_) return;
  for (const auto& handle : opened_handles_) pool_.release_peer_memory(device_, handle);
  pool_.put_back(device_, bytes_for(ranks_, cells_), memory_);
}

void Scratch::describe_memory(RankCapabilities& capabilities) const {
  capabilities.memory = reinterpret_cast<std::uintptr_t>(memory_.slots);
  cudaIpcMemHandle_t handle{};
  static_assert(sizeof handle == sizeof capabilities.handle);
  capabilities.is_ready = cudaIpcGetMemHandle(&handle, memory_.slots) == cudaSuccess ? 1 : 0;
  cudaGetLastError();
  std::memcpy(capabilities.handle.data(), &handle, sizeof handle);
}

char* Scratch::reach_memory(const RankCapabilities& own, const RankCapabilities& peer) {
  if (peer.process != own.process) {
    char* const memory = pool_.open_peer_memory(device_, peer.handle);
    opened_handles_.push_back(peer.handle);
    return memory;
  }
  int peer_device = 0;
  check(cudaDeviceGetByPCIBusId(&peer_device, peer.bus_id.data()), "finding a peer's GPU");
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer_device, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) check(error, "reaching a peer's GPU");
  cudaGetLastError();
  return reinterpret_cast<char*>(static_cast<std::uintptr_t>(peer.memory));
}

void Scratch::open_peers(const std::vector<RankCapabilities>& ranks, int own_rank) {
  const RankCapabilities& own = ranks[static_cast<std::size_t>(own_rank)];
  char* memory_of_rank[kMaxRanks] = {};
  for (int rank = 0; rank < ranks_; ++rank)
    memory_of_rank[rank] = rank == own_rank ? memory_.slots : reach_memory(own, ranks[static_cast<std::size_t>(rank)]);
  // Layout: the slots of all lanes, then the tags of all lanes.
  const std::size_t slots_bytes = lane_bytes(ranks_, cells_);
  std::size_t slots_offset = 0;
  std::size_t tags_offset = kLanes * slots_bytes;
  for (Lane& lane : lanes_) {
    for (int rank = 0; rank < ranks_; ++rank) lane.slots_of[rank] = memory_of_rank[rank] + slots_offset;
    lane.tags = reinterpret_cast<std::uint64_t*>(memory_.slots + tags_offset);
    slots_offset += slots_bytes;
    tags_offset += kTagsBytes;
    lane.cells = cells_;
    lane.starts_early = own.capability_major >= 9;  // programmatic dependent launch needs compute capability 9.0
    lane.aborted = memory_.aborted;
  }
}

void Scratch::abort() noexcept { __atomic_store_n(memory_.aborted, 1u, __ATOMIC_RELEASE); }

bool Scratch::is_aborted() const noexcept { return __atomic_load_n(memory_.aborted, __ATOMIC_ACQUIRE) != 0; }

}  // namespace busbw::fastpath
