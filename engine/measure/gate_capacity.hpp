#pragma once
// How much of what is measured fits behind a closed gate. A rank that issued more would wait for the gate itself.
#include <cstddef>

namespace busbw {

/// What a batch, or a graph of one, is made of.
struct BatchCalls {
  std::size_t per_operation;  // of a rank of the largest group: all ranks count alike, since they meet behind the gate
  std::size_t per_iteration;
  std::size_t iterations;
};

/// Beside one operation, in which ranks wait for the last gate to open, there is room for:
class GateCapacity {
 public:
  /// `room`: Gate::room.
  GateCapacity(std::size_t room, const BatchCalls& calls) : room_(room), calls_(calls) {}

  /// iterations, of those of the batch, between two stamps;
  std::size_t iterations() const;
  /// iterations, each behind a stamp, and the last stamp;
  std::size_t stamped_iterations() const;
  /// the launch of a graph of all iterations, between two stamps;
  bool fits_graph() const;
  /// the launch of such a graph that has a stamp before each iteration and behind the last.
  bool fits_timestamped_graph() const;

 private:
  bool takes_nodes(std::size_t nodes) const;

  std::size_t room_;
  BatchCalls calls_;
};

}  // namespace busbw
