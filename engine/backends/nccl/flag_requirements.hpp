#pragma once
// NCCL functions and versions that each flag requires. The NCCL backend checks its library against them at the start.
#include <functional>
#include <string>
#include <vector>

#include "backends/nccl/nccl_options.hpp"
#include "common/os/environment.hpp"

namespace busbw {

/// Requirements of one flag. Versions have the format of ncclGetVersion: 22800 for 2.28.0.
struct FlagRequirement {
  std::string flag;                    // "-R 2 (--local_register)"
  std::string remedy;                  // how to do without the flag: "leave -R out"
  std::vector<const char*> functions;  // names of the required functions
  int since = 0;                       // first version that supports the flag
  int before = 0;                      // first version that does not support it any more; 0: none
};

/// Requirements of the flags that are set. `headers_version`: version of the NCCL headers of this build. -D needs it,
/// because the device API of 2.28 differs from that of 2.29 and later.
std::vector<FlagRequirement> flag_requirements(const NcclOptions& flags, int headers_version);

/// Message about the first requirement that the library of this `version` and `path` does not meet. It names a remedy,
/// and the first version that meets all requirements. Empty if the library meets all. `has_function` tells if the
/// library exports a function.
std::string unmet_requirement(const std::vector<FlagRequirement>& requirements, int version, const std::string& path,
                              const std::function<bool(const char*)>& has_function);

/// Message if an environment variable disables a feature that a flag needs, else empty: NCCL_NVLS_ENABLE=0 disables the
/// multicast that some kernels of -D need.
std::string disabled_by_environment(const NcclOptions& flags, Environment environment);

}  // namespace busbw
