#pragma once
// Slurm's short form of a list of hosts: "n[1-3,07-09],gpu-a[01-02]-x".
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// More hosts than this are refused: the list comes from an environment, and a few bytes can name billions.
inline constexpr std::size_t kMaxHosts = 65536;

/// The hosts in the list's order. Numbers keep the width of their range's start; with several brackets in one name the
/// last one counts fastest. Throws UsageError on anything that is no such list.
std::vector<std::string> expand_hostlist(std::string_view list);

}  // namespace busbw
