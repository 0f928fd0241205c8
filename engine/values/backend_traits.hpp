#pragma once
// Properties of a backend. Options, run and outputs decide by these properties, not by the name of the backend.
#include <string_view>

namespace busbw {

/// Properties of one backend, constant for the whole run.
struct BackendTraits {
  enum class Memory { host, gpu };
  enum class Clock { host, device_events };

  std::string_view name;      // in --backend, the table and records
  Memory memory;              // memory of the ranks' buffers
  Clock clock;                // clock that times single iterations
  bool uses_nccl_library = false;  // measures a library with NCCL's interface, and states its version
};

}  // namespace busbw
