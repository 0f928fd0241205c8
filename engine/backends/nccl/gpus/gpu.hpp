#pragma once
// A GPU of this machine, as CUDA shows it to this process.
#include <cstddef>
#include <optional>
#include <string>

namespace busbw {

/// A GPU that this process can use.
struct Gpu {
  int number;                               // CUDA's number in this process
  std::string name;                         // "NVIDIA H200"
  std::string bus_id;                       // "0000:0f:00"
  std::optional<std::size_t> free_bytes;    // empty if unknown; without forks, NcclBackend queries it later
  std::optional<int> compute_capability{};  // 90 for 9.0
};

}  // namespace busbw
