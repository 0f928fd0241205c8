#pragma once
// Plan of one round of the mix. It is drawn from the seed and the same on every rank.
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "values.hpp"

namespace stress {

inline constexpr int kCommunicators = 3;
inline constexpr int kMaxGraphs = 3;  ///< per round
inline constexpr int kStreamsOfOne = 3;
inline constexpr int kStreams = kCommunicators * kStreamsOfOne;
inline constexpr std::size_t kArenaBytes = 48u << 20;
inline constexpr std::size_t kGuardBytes = 256;

/// Ranks of a communicator: all ranks, all ranks in reverse order, or every second rank.
enum class Layout { plain, reversed, parity };
/// Returns the ranks of the communicator that contains `rank`.
std::vector<int> communicator_ranks(Layout layout, int ranks, int rank);

/// One call of NCCL.
struct Call {
  int communicator = 0;
  int stream = 0;
  Kind kind = Kind::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  std::size_t count = 0;  ///< count argument of NCCL's call
  bool in_place = false;
  bool is_noisy = false;  ///< arbitrary values: results must be equal on all ranks and in the next call
  int times = 1;          ///< number of in-place repetitions, each of which uses the previous result
  int unaligned = 0;      ///< offset in elements, multiplied by rank + 1
  std::uint32_t salt = 0;
  std::size_t at = 0;     ///< offset of its region in the arena
  std::size_t bytes = 0;  ///< size of its region

  std::size_t send_count(int size) const {
    return kind == Kind::reduce_scatter || kind == Kind::alltoall ? count * size : count;
  }
  std::size_t receive_count(int size) const {
    return kind == Kind::all_gather || kind == Kind::alltoall ? count * size : count;
  }
};

/// Offsets of a rank's buffers of a call in its arena.
struct BufferOffsets {
  std::size_t send;
  std::size_t receive;
};
BufferOffsets offsets_of(const Call& call, int rank, int index, int size);

/// A step: a call, several calls as one group, or another action.
struct Item {
  enum class Action { call, group, order, delay, nap, replay } action = Action::call;
  std::vector<int> calls;
  int stream = 0;
  int second = 0;   ///< for `order`: this stream waits for `stream`
  int graph = 0;
  int instance = 0;
};

/// A captured graph with its calls.
struct Graph {
  int communicator = 0;
  int stream = 0;
  int second = 0;  ///< second captured stream; equal to `stream`: only one stream
  std::vector<int> calls;
  int replays = 0;
};

/// Calls, graphs and steps of one round.
struct Plan {
  std::vector<Call> calls;
  std::vector<Graph> graphs;
  std::vector<Item> items;
  std::size_t used_bytes = 0;
};

/// Optional features that depend on the version of NCCL or on the run.
struct Abilities {
  bool has_alltoall = true;
  bool has_windows = false;
};

Plan draw_plan(std::mt19937_64& random, int ranks, const Layout (&layouts)[kCommunicators], Abilities abilities);

}  // namespace stress
