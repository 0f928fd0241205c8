#pragma once
// Model of several communicators that share GPUs. It checks for deadlocks of kernels that wait for each other but do
// not all fit on a GPU.
//
// Each communicator has a stream on every GPU, with kernels one after another. A GPU has places for a number of blocks.
// Any stream may get a free place, and the blocks of a kernel begin in order. A block ends once the same block of the
// same kernel runs on every GPU.
#include <cstdint>
#include <string>

namespace busbw::fastpath::model {

/// Time at which a kernel may take places although the previous kernel of its stream still waits for peers.
enum class Parking {
  none,   ///< never: it starts after the last wait for a peer
  one,    ///< when all blocks of the previous kernel run
  chain,  ///< when all blocks of the previous kernel have places, also if that kernel does not run yet
};

struct SharedGpuModel {
  int gpus = 2;
  int communicators = 2;
  int kernels = 2;  ///< of each
  int blocks = 2;   ///< of each kernel, at most 8
  int places = 8;   ///< of each GPU
  Parking parking = Parking::none;
};

struct SharedGpuResult {
  std::uint64_t states = 0;
  bool can_hang = false;
};

/// Explores every order in which blocks may begin and end.
SharedGpuResult explore_shared_gpus(const SharedGpuModel& model);

/// Returns the minimum number of places without a deadlock. 0 if `max_places` is not enough.
int places_needed(SharedGpuModel model, int max_places);

}  // namespace busbw::fastpath::model
