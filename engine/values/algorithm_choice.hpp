#pragma once
// Algorithm with which a library runs an operation.
#include <string>
#include <tuple>
#include <vector>

namespace busbw {

/// Algorithm, protocol and channels that a library has chosen for an operation. Unknown texts are empty.
struct AlgorithmChoice {
  std::string algorithm;  // "ring"
  std::string protocol;   // "ll128"
  int channels = 0;       // 0: unknown

  bool operator==(const AlgorithmChoice&) const = default;
  static auto members(auto& self) { return std::tie(self.algorithm, self.protocol, self.channels); }
};

/// Returns the choice that all ranks and operations have in common. Unknown if they differ or if no choice is known.
/// `distinct_choices` has each choice once, as Measurement::algorithms does.
inline AlgorithmChoice common_choice(const std::vector<AlgorithmChoice>& distinct_choices) {
  return distinct_choices.size() == 1 ? distinct_choices.front() : AlgorithmChoice();
}

}  // namespace busbw
