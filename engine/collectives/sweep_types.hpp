#pragma once
// A sweep: all configurations and sizes that one run measures.
#include <cstdint>
#include <string>
#include <vector>

#include "common/values/types.hpp"

namespace busbw {

/// Element type, operator and root. The table lists all sizes for each configuration.
struct Configuration {
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  std::string redop_name;  // the redop column: "sum", "none", ""
  int root = -1;  // the root column; -1 if there is no root
};

/// Configurations and sizes of a run. Every cycle measures all sizes of each configuration.
struct Sweep {
  std::vector<Configuration> configurations;  // in nccl-tests' order: types, then operators, then roots
  std::vector<std::uint64_t> sizes_bytes;  // as requested
  int cycles = 1;  // 0: endless
};

}  // namespace busbw
