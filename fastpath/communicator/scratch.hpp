#pragma once
// Scratch memory: the memory of a rank that its peers write into, and the addresses of the peers' memory. It consists
// of two lanes, one for calls outside of graphs and one for graphs. A lane is a sequence of operations with its own
// slots and tags. A slot is the place for one cell from one peer, and a tag is the number of a step
// (schedule/schedule.hpp).
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "common/libraries/nvml.hpp"
#include "fastpath/device/launch.hpp"
#include "fastpath/peers/rank_capabilities.hpp"

namespace busbw::fastpath {

/// Kinds of lanes. They are separate, because the host does not know the order of calls and graph replays.
enum class LaneKind { calls, graphs };
inline constexpr int kLanes = 2;

/// Allocated memory of a rank.
struct ScratchMemory {
  char* slots = nullptr;             ///< slots and tags of all lanes, in GPU memory
  std::uint32_t* aborted = nullptr;  ///< abort flag in host memory, mapped for the GPU
};

/// True if NVLink connects this rank's GPU with the GPU of every other rank. `device` is this rank's CUDA device.
bool are_linked(const std::vector<RankCapabilities>& ranks, int rank, int device, const Nvml& nvml);

/// Pool of the memory of destroyed communicators: their own memory and their mappings of other processes' memory. The
/// next communicator of the same size reuses the memory. The memory is not freed at once for two reasons:
///
/// - Peers may still have the memory open. In CUDA, freeing memory that another process has open is undefined.
/// - Freeing and closing may wait for all work on the GPU. That work may in turn wait for this thread's next call.
///
/// A rank puts its memory into the pool after it has received all cells, so normally no peer writes into it later. The
/// exception is a peer that aborts and then starts another call. Its cells do no harm, because no later communicator
/// expects their tags (clique_setup.cpp).
///
/// `device`: CUDA device of the memory. Except in put_back() and release_peer_memory(), it must be the current device.
class ScratchPool {
 public:
  /// Prepares take() with the same arguments. If the pool has no memory of that size, closes the memory of other
  /// processes that this process no longer uses. The other processes can then free this memory in take(), which the
  /// ranks call in the next round of the setup.
  void prepare(int device, std::size_t bytes);
  /// Returns memory of that size, from the pool if possible. Otherwise frees the pool's memory of other sizes before it
  /// allocates. Throws EnvironmentError.
  ScratchMemory take(int device, std::size_t bytes);
  /// Returns memory to the pool. Does not wait for a thread that allocates or frees memory.
  void put_back(int device, std::size_t bytes, ScratchMemory memory);

  /// Opens another process's memory for `device` and returns its address. Throws EnvironmentError.
  char* open_peer_memory(int device, const std::array<unsigned char, 64>& handle);
  /// Ends one use of opened memory, which stays open for later communicators. Does not wait for a thread that allocates
  /// or frees memory.
  void release_peer_memory(int device, const std::array<unsigned char, 64>& handle);

 private:
  struct OpenedMemory {
    char* memory = nullptr;
    int user_count = 0;
  };

  /// Closes the memory of other processes that this process does not use.
  void close_unused(int device);
  /// Like close_unused(), and frees the pool's memory on the device.
  void clear(int device);
  std::mutex& allocation_mutex(int device);

  // By device. Held while CUDA allocates, frees or closes memory, which may wait for work on the GPU. Locked before
  // mutex_.
  std::map<int, std::mutex> allocation_mutexes_;
  std::mutex mutex_;  // guards the three maps
  std::multimap<std::pair<int, std::size_t>, ScratchMemory> pooled_memories_;  // by device and bytes
  std::map<std::pair<int, std::array<unsigned char, 64>>, OpenedMemory>
      opened_memories_;  // by device and CUDA IPC handle
};

/// Scratch memory of one rank, on the device that is current at construction. The constructor throws EnvironmentError
/// if there is no memory.
class Scratch {
 public:
  /// The first operation of each lane uses tag `tags_begin` + 1.
  Scratch(int ranks, int cells, std::uint64_t tags_begin, ScratchPool& pool);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Returns the size of a rank's scratch memory in bytes. `cells`: cells per step.
  static std::size_t bytes_for(int ranks, int cells);

  /// Sets `memory`, the address in this process, and `handle`, for other processes. Sets `is_ready` to 1 if CUDA can
  /// create the handle, otherwise to 0.
  void describe_memory(RankCapabilities& capabilities) const;
  /// Opens every peer's memory. The ranks must satisfy are_linked(). Throws EnvironmentError.
  void open_peers(const std::vector<RankCapabilities>& ranks, int own_rank);

  std::uint64_t tags_begin() const { return tags_begin_; }
  const Lane& lane(LaneKind kind) const { return lanes_[static_cast<int>(kind)]; }

  /// Sets the abort flag: kernels that wait for a peer exit, now and in the future.
  void abort() noexcept;
  bool is_aborted() const noexcept;
  /// Makes the destructor leak the memory. After an abort, the destructor always leaks it.
  void leak() noexcept { is_leaked_ = true; }

 private:
  /// Returns the address of a peer's memory in this process. Opens it if it belongs to another process.
  char* reach_memory(const RankCapabilities& own, const RankCapabilities& peer);

  ScratchPool& pool_;
  bool is_leaked_ = false;
  int device_ = 0;
  int ranks_;
  int cells_;
  std::uint64_t tags_begin_;
  ScratchMemory memory_;
  std::vector<std::array<unsigned char, 64>> opened_handles_;  // of other processes' memory
  Lane lanes_[kLanes];
};

}  // namespace busbw::fastpath
