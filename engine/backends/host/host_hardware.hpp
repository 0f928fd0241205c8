#pragma once
// Facts about this machine: processor name, available memory, cache size.
#include <cstddef>
#include <filesystem>
#include <string>

namespace busbw {

/// "AMD EPYC 9654 96-Core Processor" from <root>/proc/cpuinfo, or "unknown processor". Only tests pass another `root`.
std::string cpu_name(const std::filesystem::path& root = "/");

/// Bytes that can still be allocated: the minimum of MemAvailable in /proc/meminfo and the remaining memory of this
/// process's control group and all its parents (versions 1 and 2). Throws EnvironmentError if /proc/meminfo has no
/// MemAvailable.
std::size_t available_memory_bytes(const std::filesystem::path& root = "/");

/// Bytes of the last-level cache, or 32 MiB if the system does not report it.
std::size_t last_cache_bytes();

}  // namespace busbw
