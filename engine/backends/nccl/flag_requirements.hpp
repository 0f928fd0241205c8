#pragma once
// Which flag needs which functions of the library, and since when a library has them.
#include <functional>
#include <string>
#include <vector>

#include "backends/nccl/nccl_options.hpp"
#include "common/os/environment.hpp"

namespace busbw {

/// What one flag needs. Versions are as ncclGetVersion gives them: 22800.
struct FlagRequirement {
  std::string flag;                         // "-R 2 (--local_register)"
  std::string remedy;                    // what to do without it: "leave -R out"
  std::vector<const char*> functions;  // by name
  int since = 0;                            // the first version that can
  int before = 0;                           // the first that cannot any more; 0: none
};

/// The needs of what was asked for. `headers` is the version of NCCL's headers that this program was built with: the
/// device API of 2.28 is not that of 2.29 and later.
std::vector<FlagRequirement> flag_requirements(const NcclOptions& flags, int headers);

/// A sentence that names what a library lacks for a flag and what to do; empty where it lacks nothing.
std::string unmet_requirement(const std::vector<FlagRequirement>& needs, int version, const std::string& path,
                    const std::function<bool(const char*)>& has);

/// A sentence where the environment switches off what a flag needs; empty where it does not. Multicast that was
/// switched off must not be touched.
std::string disabled_by_environment(const NcclOptions& flags, Environment environment);

}  // namespace busbw
