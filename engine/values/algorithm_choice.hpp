#pragma once
// Algorithm with which a library runs an operation.
#include <string>
#include <tuple>

namespace busbw {

/// Choice of a library for an operation. Unknown texts are empty.
struct AlgorithmChoice {
  std::string algorithm;  // "ring"
  std::string protocol;   // "ll128"
  int channels = 0;       // 0: unknown

  bool operator==(const AlgorithmChoice&) const = default;
  static auto members(auto& self) { return std::tie(self.algorithm, self.protocol, self.channels); }
};

}  // namespace busbw
