#pragma once
// Whether kernels that wait for each other find room on their GPUs at the same time, when several communicators run at
// once.
//
// Each communicator has a stream on every GPU, with kernels one after another. A GPU has places for so many blocks;
// which stream gets a free place is open, the blocks of a kernel begin in order. A block ends once the same block of
// the same kernel runs on every GPU, which is all that matters here of the schedules.
#include <cstdint>
#include <string>

namespace busbw::fastpath::model {

/// When a kernel may take places while the one before it in its stream still waits for peers.
enum class Parking {
  none,   ///< not at all: it is let in after the last wait for a peer
  one,    ///< once all blocks of the one before run
  chain,  ///< once all blocks of the one before have begun, though that is itself not running yet
};

struct Crowd {
  int gpus = 2;
  int communicators = 2;
  int kernels = 2;  ///< of each
  int blocks = 2;   ///< of each kernel, at most 8
  int places = 8;   ///< of each GPU
  Parking parking = Parking::none;
};

struct Crowded {
  std::uint64_t states = 0;
  bool can_hang = false;
};

/// Every order in which blocks may begin and end.
Crowded explore_crowd(const Crowd& crowd);

/// The least number of places with which nothing can hang; 0 where none up to `most` is enough.
int places_needed(Crowd crowd, int most);

}  // namespace busbw::fastpath::model
