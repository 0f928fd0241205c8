#pragma once
// Properties of a backend on which options, run and outputs depend. They compare no names.
#include <string_view>

namespace busbw {

/// Properties of one backend, constant for the whole run.
struct BackendTraits {
  enum class Memory { host, gpu };
  enum class Clock { host, device_events };

  std::string_view name;      // in --backend, the table and records
  Memory memory;              // of the ranks' buffers
  Clock clock;                // that times single iterations
  bool uses_nccl_library = false;  // its version is that of a library with NCCL's interface
};

}  // namespace busbw
