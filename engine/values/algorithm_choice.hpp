#pragma once
// Algorithm with which a library runs an operation.
#include <string>
#include <tuple>
#include <vector>

namespace busbw {

/// Choice of a library for an operation. Unknown texts are empty.
struct AlgorithmChoice {
  std::string algorithm;  // "ring"
  std::string protocol;   // "ll128"
  int channels = 0;       // 0: unknown

  bool operator==(const AlgorithmChoice&) const = default;
  static auto members(auto& self) { return std::tie(self.algorithm, self.protocol, self.channels); }
};

/// Returns the only one of several choices. Unknown without choices, or if ranks or operations differ.
inline AlgorithmChoice common_choice(const std::vector<AlgorithmChoice>& choices) {
  return choices.size() == 1 ? choices.front() : AlgorithmChoice();
}

}  // namespace busbw
