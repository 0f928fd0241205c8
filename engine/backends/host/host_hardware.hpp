#pragma once
// What this machine says of itself: its processor's name, its memory, its cache.
#include <cstddef>
#include <filesystem>
#include <string>

namespace busbw {

/// "AMD EPYC 9654 96-Core Processor" from <root>/proc/cpuinfo, or "unknown processor". `root` differs in tests only.
std::string cpu_name(const std::filesystem::path& root = "/");

/// Bytes that can still be used: the smaller of MemAvailable in /proc/meminfo and what the memory limits of this
/// process's control groups (version 1 and 2, from its own up to the root) leave. Throws EnvironmentError where
/// /proc/meminfo does not say.
std::size_t available_memory_bytes(const std::filesystem::path& root = "/");

/// Bytes of the last cache before memory, 32 MiB where the system does not say.
std::size_t last_cache_bytes();

}  // namespace busbw
