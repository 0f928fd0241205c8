#pragma once
// What a sweep runs over.
#include <cstdint>
#include <string>
#include <vector>

#include "common/values/types.hpp"

namespace busbw {

/// One type, operator and root; the table repeats the sizes for each.
struct Configuration {
  Dtype dtype = Dtype::float32;
  Redop redop = Redop::sum;
  std::string redop_name;  // the redop column: "sum", "none", ""
  int root = -1;           // the root column; -1 without
};

struct Sweep {
  std::vector<Configuration> configurations;  // in nccl-tests' order: types, then operators, then roots
  std::vector<std::uint64_t> sizes_bytes;     // as asked for
  int cycles = 1;                             // 0: without end
};

}  // namespace busbw
