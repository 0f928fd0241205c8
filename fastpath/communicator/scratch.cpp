#include "fastpath/communicator/scratch.hpp"

#include <cstring>

#include "fastpath/device/cuda_check.hpp"

namespace busbw::fastpath {
namespace {

constexpr std::size_t kTagsBytes = kMaxBlocks * sizeof(std::uint64_t);

/// True if NVLink connects this device with the peer's GPU. CUDA reports native atomic operations on peer memory over
/// NVLink but not over PCI Express. CUDA does not list GPUs that are hidden from this process, so NVML is queried for
/// them.
bool is_linked(int device, const RankCapabilities& own, const RankCapabilities& peer, HiddenGpuLinks& hidden) {
  int other = 0;
  if (cudaDeviceGetByPCIBusId(&other, peer.bus_id.data()) != cudaSuccess)
    return hidden.are_joined_by_nvlink(own.bus_id.data(), peer.bus_id.data());
  int reached = 0;
  int atomics = 0;
  return cudaDeviceCanAccessPeer(&reached, device, other) == cudaSuccess && reached != 0 &&
         cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, device, other) == cudaSuccess &&
         atomics != 0;
}

}  // namespace

bool are_linked(const std::vector<RankCapabilities>& ranks, int rank, int device, HiddenGpuLinks& hidden) {
  bool all = true;
  for (int p = 0; p < static_cast<int>(ranks.size()); ++p)
    all = all && (p == rank ||
                  is_linked(device, ranks[static_cast<std::size_t>(rank)], ranks[static_cast<std::size_t>(p)], hidden));
  cudaGetLastError();
  return all;
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
    std::erase_if(opened_, [&](const auto& one) {
      const bool is_removed = one.first.first == device && one.second.users == 0;
      if (is_removed) unused.push_back(one.second.memory);
      return is_removed;
    });
  }
  for (char* const memory : unused) cudaIpcCloseMemHandle(memory);
  cudaGetLastError();
}

void ScratchPool::clear(int device) {
  close_unused(device);
  std::vector<ScratchMemory> kept;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](const auto& one) {
      const bool is_removed = one.first.first == device;
      if (is_removed) kept.push_back(one.second);
      return is_removed;
    });
  }
  for (const ScratchMemory& one : kept) {
    cudaFree(one.slots);
    cudaFreeHost(one.aborted);
  }
  cudaGetLastError();
}

void ScratchPool::prepare(int device, std::size_t bytes) {
  const std::lock_guard one_at_a_time(allocation_mutex(device));
  {
    const std::lock_guard lock(mutex_);
    if (kept_.contains({device, bytes})) return;
  }
  close_unused(device);
}

ScratchMemory ScratchPool::take(int device, std::size_t bytes) {
  // The memory in the pool must be freed before more is allocated. Otherwise the GPU's budget would be exceeded.
  const std::lock_guard one_at_a_time(allocation_mutex(device));
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find({device, bytes}); found != kept_.end()) {
      const ScratchMemory memory = found->second;
      kept_.erase(found);
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

char* ScratchPool::open(int device, const std::array<unsigned char, 64>& handle) {
  const std::lock_guard lock(mutex_);
  OpenedMemory& opened = opened_[{device, handle}];
  if (opened.memory == nullptr) {
    cudaIpcMemHandle_t bytes;
    static_assert(sizeof bytes == sizeof handle);
    std::memcpy(&bytes, handle.data(), sizeof bytes);
    void* memory = nullptr;
    check(cudaIpcOpenMemHandle(&memory, bytes, cudaIpcMemLazyEnablePeerAccess), "opening a peer's memory");
    opened.memory = static_cast<char*>(memory);
  }
  ++opened.users;
  return opened.memory;
}

void ScratchPool::release(int device, const std::array<unsigned char, 64>& handle) {
  const std::lock_guard lock(mutex_);
  --opened_[{device, handle}].users;
}

void ScratchPool::put_back(int device, std::size_t bytes, ScratchMemory memory) {
  const std::lock_guard lock(mutex_);
  kept_.insert({{device, bytes}, memory});
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
    const std::vector<std::uint64_t> words(kLanes * kMaxBlocks, tags_begin);
    check(cudaMemsetAsync(memory_.slots, 0, bytes, stream.get()), "clearing scratch memory");
    const std::size_t words_bytes = words.size() * sizeof words[0];
    check(cudaMemcpyAsync(memory_.slots + bytes - words_bytes, words.data(), words_bytes, cudaMemcpyHostToDevice,
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
  if (is_aborted() || is_given_up_) return;
  for (const auto& handle : opened_) pool_.release(device_, handle);
  pool_.put_back(device_, bytes_for(ranks_, cells_), memory_);
}

void Scratch::describe(RankCapabilities& capabilities) const {
  capabilities.memory = reinterpret_cast<std::uintptr_t>(memory_.slots);
  cudaIpcMemHandle_t handle{};
  static_assert(sizeof handle == sizeof capabilities.handle);
  capabilities.is_ready = cudaIpcGetMemHandle(&handle, memory_.slots) == cudaSuccess ? 1 : 0;
  cudaGetLastError();
  std::memcpy(capabilities.handle.data(), &handle, sizeof handle);
}

void Scratch::open_peers(const std::vector<RankCapabilities>& ranks, int rank) {
  const RankCapabilities& own = ranks[static_cast<std::size_t>(rank)];
  char* base_of[kMaxRanks] = {};
  for (int p = 0; p < ranks_; ++p) {
    const RankCapabilities& peer = ranks[static_cast<std::size_t>(p)];
    if (p == rank) {
      base_of[p] = memory_.slots;
      continue;
    }
    if (peer.process == own.process) {
      int other = 0;
      check(cudaDeviceGetByPCIBusId(&other, peer.bus_id.data()), "finding a peer's GPU");
      const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
      if (error != cudaErrorPeerAccessAlreadyEnabled) check(error, "reaching a peer's GPU");
      cudaGetLastError();
      base_of[p] = reinterpret_cast<char*>(static_cast<std::uintptr_t>(peer.memory));
      continue;
    }
    base_of[p] = pool_.open(device_, peer.handle);
    opened_.push_back(peer.handle);
  }
  const std::size_t one = lane_bytes(ranks_, cells_);
  for (int l = 0; l < kLanes; ++l) {
    Lane& lane = lanes_[l];
    for (int p = 0; p < ranks_; ++p) lane.slots_of[p] = base_of[p] + static_cast<std::size_t>(l) * one;
    lane.tags =
        reinterpret_cast<std::uint64_t*>(memory_.slots + kLanes * one + static_cast<std::size_t>(l) * kTagsBytes);
    lane.cells = cells_;
    lane.starts_early = own.capability_major >= 9;
    lane.aborted = memory_.aborted;
  }
}

void Scratch::abort() noexcept { __atomic_store_n(memory_.aborted, 1u, __ATOMIC_RELEASE); }

bool Scratch::is_aborted() const noexcept { return __atomic_load_n(memory_.aborted, __ATOMIC_ACQUIRE) != 0; }

}  // namespace busbw::fastpath
