#pragma once
// What all ranks do in a round of the mix, drawn from the seed: the same on every rank.
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "values.hpp"

namespace stress {

inline constexpr int kCommunicators = 3;
inline constexpr int kMaxGraphs = 3;  ///< of a round
inline constexpr int kStreamsOfOne = 3;
inline constexpr int kStreams = kCommunicators * kStreamsOfOne;
inline constexpr std::size_t kArenaBytes = 48u << 20;
inline constexpr std::size_t kGuardBytes = 256;

/// Who is in a communicator beside a rank: everybody, everybody the other way round, or every second rank.
enum class Layout { plain, reversed, parity };
std::vector<int> members(Layout layout, int ranks, int rank);

struct Call {
  int communicator = 0;
  int stream = 0;
  Kind kind = Kind::all_reduce;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  std::size_t count = 0;  ///< as NCCL's call has it
  bool in_place = false;
  bool is_noisy = false;  ///< with any values: results must be alike on all ranks, and those of the next call
  int times = 1;          ///< in place, so that each adds to the result of the one before
  int unaligned = 0;      ///< elements, times one more than the rank
  std::uint32_t salt = 0;
  std::size_t at = 0;     ///< of its region in the arena
  std::size_t bytes = 0;  ///< of its region

  std::size_t send_count(int size) const {
    return kind == Kind::reduce_scatter || kind == Kind::alltoall ? count * size : count;
  }
  std::size_t receive_count(int size) const {
    return kind == Kind::all_gather || kind == Kind::alltoall ? count * size : count;
  }
};

/// Where a rank's buffers of a call lie in its arena.
struct Place {
  std::size_t send;
  std::size_t receive;
};
Place place_of(const Call& call, int rank, int index, int size);

/// A step: a call, several as one group, or what is around them.
struct Item {
  enum class What { call, group, order, delay, nap, replay } what = What::call;
  std::vector<int> calls;
  int stream = 0;
  int second = 0;   ///< order: this one waits for `stream`
  int graph = 0;
  int instance = 0;
};

struct Graph {
  int communicator = 0;
  int stream = 0;
  int second = 0;  ///< calls on this stream are joined in; the same as `stream`: there is one
  std::vector<int> calls;
  int replays = 0;
};

struct Plan {
  std::vector<Call> calls;
  std::vector<Graph> graphs;
  std::vector<Item> items;
  std::size_t used_bytes = 0;
};

/// What not every NCCL can do, or not every run wants.
struct Abilities {
  bool has_alltoall = true;
  bool has_windows = false;
};

Plan draw_plan(std::mt19937_64& random, int ranks, const Layout (&layouts)[kCommunicators], Abilities abilities);

}  // namespace stress
