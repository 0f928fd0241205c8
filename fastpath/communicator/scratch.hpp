#pragma once
// A rank's memory that its peers write into, and the way to theirs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fastpath/device/launch.hpp"
#include "fastpath/peers/hidden_gpu_links.hpp"
#include "fastpath/peers/rank_capabilities.hpp"

namespace busbw::fastpath {

/// Operations that a program queues itself and those that a graph replays come in no order that a host could know, so
/// each kind has a lane of its own.
enum class LaneKind { calls, graphs };
inline constexpr int kLanes = 2;

/// A rank's memory and its flag, as they are allocated.
struct ScratchMemory {
  char* slots = nullptr;             ///< on the GPU
  std::uint32_t* aborted = nullptr;  ///< in the host's memory, seen by the GPU
};

/// Whether NVLink joins each of these ranks' GPUs with this rank's, which is `device` here.
bool are_linked(const std::vector<RankCapabilities>& ranks, int rank, int device, HiddenGpuLinks& hidden);

/// Memory of communicators that have ended, and what they had open of other processes' memory, kept for the next ones
/// of that size. For peers may have memory open for some while, and CUDA calls it undefined to free what others have
/// open; and freeing and closing may wait for all that runs on a GPU, also for what only this thread's next call would
/// bring to an end. Nobody writes into memory that is kept, as each cell was taken, but a peer that aborts and starts a
/// call afterwards.
class ScratchPool {
 public:
  /// Before a meeting whose ranks, this one on the current device, may want memory of that size: closes what nobody
  /// here uses of other processes' memory, unless such memory is kept. For the others may have none and free what they
  /// keep, once all have come to the meeting.
  void prepare(int device, std::size_t bytes);
  /// Memory of that size on the current device; what is kept of another size makes room for it. Throws
  /// EnvironmentError.
  ScratchMemory take(int device, std::size_t bytes);
  /// Like release(), does not wait for who frees memory.
  void put_back(int device, std::size_t bytes, ScratchMemory memory);

  /// Another process's memory, as the current device sees it. Throws EnvironmentError.
  char* open(int device, const std::array<unsigned char, 64>& handle);
  void release(int device, const std::array<unsigned char, 64>& handle);

 private:
  struct OpenedMemory {
    char* memory = nullptr;
    int users = 0;
  };

  /// What nobody uses on this device, which is the current one: of others' memory, and that too which is kept here.
  void close_unused(int device);
  void clear(int device);
  std::mutex& making_on(int device);

  std::map<int, std::mutex> making_;  // by device; held before the other, while CUDA may wait for what runs on the GPU
  std::mutex mutex_;
  std::multimap<std::pair<int, std::size_t>, ScratchMemory> kept_;
  std::map<std::pair<int, std::array<unsigned char, 64>>, OpenedMemory> opened_;
};

/// Its memory is on the device that is current at construction. Throws EnvironmentError where there is none.
class Scratch {
 public:
  /// The tags of both lanes go on from `tags_begin`.
  Scratch(int ranks, int cells, std::uint64_t tags_begin, ScratchPool& pool);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  static std::size_t bytes_for(int ranks, int cells);

  /// Where it is, for this process and for others.
  void describe(RankCapabilities& facts) const;
  /// Finds the way to every peer's memory, all of which are_linked(). Throws EnvironmentError.
  void reach(const std::vector<RankCapabilities>& ranks, int rank);

  std::uint64_t tags_begin() const { return tags_begin_; }
  const Lane& lane(LaneKind kind) const { return lanes_[static_cast<int>(kind)]; }

  /// Kernels that wait for a peer leave, now and later.
  void abort() noexcept;
  bool is_aborted() const noexcept;
  /// Its memory is left as it is when this ends, as that of an aborted one.
  void give_up() noexcept { is_given_up_ = true; }

 private:
  ScratchPool& pool_;
  bool is_given_up_ = false;
  int device_ = 0;
  int ranks_;
  int cells_;
  std::uint64_t tags_begin_;
  ScratchMemory memory_;
  std::vector<std::array<unsigned char, 64>> opened_;  // handles of other processes' memory
  Lane lanes_[kLanes];
};

}  // namespace busbw::fastpath
