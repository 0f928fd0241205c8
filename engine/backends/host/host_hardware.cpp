#include "backends/host/host_hardware.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "common/support/error.hpp"

namespace busbw {
namespace {

using Path = std::filesystem::path;

std::vector<std::string> lines_of(const Path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Number at the start of `text`, after blanks. Nothing for "max", which means "no limit" in version 2.
std::optional<std::uint64_t> number_in(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

/// Number after `key` in a file with lines "key number".
std::optional<std::uint64_t> keyed_number(const Path& file, std::string_view key) {
  for (const std::string& line : lines_of(file)) {
    if (line.starts_with(key)) return number_in(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> only_number(const Path& file) {
  const auto lines = lines_of(file);
  return lines.empty() ? std::nullopt : number_in(lines.front());
}

/// Bytes that the control group at `folder` can still allocate, or nothing if it has no limit.
std::optional<std::uint64_t> available_in_group(const Path& folder, bool version2) {
  const auto limit = only_number(folder / (version2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = only_number(folder / (version2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  // Cached file pages count as used, but the kernel frees them on demand.
  const auto cached = keyed_number(folder / "memory.stat", version2 ? "inactive_file " : "total_inactive_file ");
  const std::uint64_t held = *used - std::min(*used, cached.value_or(0));
  return *limit - std::min(*limit, held);
}

/// Minimum over `group`, as named in /proc/self/cgroup, and all groups above it.
std::uint64_t available_in_groups(const Path& mount, std::string_view group, bool version2) {
  std::uint64_t minimum = std::numeric_limits<std::uint64_t>::max();
  for (Path at = Path(group).relative_path();; at = at.parent_path()) {
    minimum = std::min(minimum, available_in_group(mount / at, version2).value_or(minimum));
    if (at.empty()) return minimum;
  }
}

}  // namespace

std::string cpu_name(const Path& root) {
  for (const std::string& line : lines_of(root / "proc/cpuinfo")) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::size_t available_memory_bytes(const Path& root) {
  const auto available_kib = keyed_number(root / "proc/meminfo", "MemAvailable:");
  if (!available_kib) {
    throw EnvironmentError("/proc/meminfo does not report the available memory (MemAvailable); mount /proc");
  }
  std::uint64_t minimum = *available_kib * 1024;
  // "0::/path" is the version 2 hierarchy; "4:memory:/path" is the memory controller of version 1.
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") minimum = std::min(minimum, available_in_groups(root / "sys/fs/cgroup", group, true));
    if (controllers.find(",memory,") != std::string::npos) {
      minimum = std::min(minimum, available_in_groups(root / "sys/fs/cgroup/memory", group, false));
    }
  }
  return minimum;
}

std::size_t last_cache_bytes() {
  long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{32} << 20;
}

}  // namespace busbw
