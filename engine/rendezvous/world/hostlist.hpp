#pragma once
// Expands Slurm's compact host lists, such as "n[1-3,07-09],gpu-a[01-02]-x" in SLURM_STEP_NODELIST.
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// Maximum number of hosts. Without a maximum, a short environment variable can expand to billions of names.
inline constexpr std::size_t kMaxHosts = 65536;

/// Returns the hosts in order. Numbers have at least as many digits as the start of their range. If a name has several
/// brackets, the last one varies fastest. Throws UsageError if `list` is not a host list.
std::vector<std::string> expand_hostlist(std::string_view list);

}  // namespace busbw
