// Reads /proc and the memory control groups (cgroups). A process may use at most the remaining memory of its group and
// of each parent group. The versions 1 and 2 of cgroups have different folders and file names.
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

std::vector<std::string> read_lines(const Path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Number at the start of `text`, after blanks. Nothing for "max", which means "no limit" in version 2.
std::optional<std::uint64_t> parse_leading_number(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

/// Number after `key` in a file with lines "key number". Nothing if the file lacks the key.
std::optional<std::uint64_t> read_keyed_number(const Path& file, std::string_view key) {
  for (const std::string& line : read_lines(file)) {
    if (line.starts_with(key)) return parse_leading_number(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

/// Number in the first line of a file. Nothing if the file is missing or has no number.
std::optional<std::uint64_t> read_first_number(const Path& file) {
  const auto lines = read_lines(file);
  return lines.empty() ? std::nullopt : parse_leading_number(lines.front());
}

/// Names in the folder of a control group, which depend on the version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::string_view cached_key;  // in memory.stat; ends with a blank, so that longer keys do not match
};
constexpr GroupFiles kVersion1Files{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr GroupFiles kVersion2Files{"memory.max", "memory.current", "inactive_file "};

std::uint64_t difference_or_zero(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

/// Bytes that the control group at `folder` can still allocate. Nothing without a limit in version 2. Version 1 states
/// a huge limit instead.
std::optional<std::uint64_t> available_in_group_bytes(const Path& folder, const GroupFiles& files) {
  const auto limit_bytes = read_first_number(folder / files.limit);
  const auto used_bytes = read_first_number(folder / files.used);
  if (!limit_bytes || !used_bytes) return std::nullopt;
  // Cached file pages count as used, but the kernel frees them on demand.
  const auto cached_bytes = read_keyed_number(folder / "memory.stat", files.cached_key);
  return difference_or_zero(*limit_bytes, difference_or_zero(*used_bytes, cached_bytes.value_or(0)));
}

/// Minimum of available_in_group_bytes over a group and all its parents. `group` is the group's path in
/// /proc/self/cgroup. `mount` is the folder of the root group. Without a limit, returns the largest number.
std::uint64_t available_in_parents_bytes(const Path& mount, std::string_view group, const GroupFiles& files) {
  std::uint64_t min_bytes = std::numeric_limits<std::uint64_t>::max();
  for (Path path = Path(group).relative_path();; path = path.parent_path()) {
    min_bytes = std::min(min_bytes, available_in_group_bytes(mount / path, files).value_or(min_bytes));
    if (path.empty()) return min_bytes;
  }
}

}  // namespace

std::string cpu_name(const Path& root) {
  for (const std::string& line : read_lines(root / "proc/cpuinfo")) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::size_t available_memory_bytes(const Path& root) {
  const auto available_kib = read_keyed_number(root / "proc/meminfo", "MemAvailable:");
  if (!available_kib) {
    throw EnvironmentError("/proc/meminfo does not report the available memory (MemAvailable); mount /proc");
  }
  std::uint64_t min_bytes = *available_kib * 1024;
  // Lines are "number:controllers:group": "0::/path" in version 2, "4:memory:/path" for memory in version 1.
  for (const std::string& line : read_lines(root / "proc/self/cgroup")) {
    const std::size_t colon1 = line.find(':');
    const std::size_t colon2 = line.find(':', colon1 + 1);
    if (colon1 == std::string::npos || colon2 == std::string::npos) continue;
    // Commas around the list, so that a search for ",memory," matches whole names.
    const std::string controllers = "," + line.substr(colon1 + 1, colon2 - colon1 - 1) + ",";
    const std::string group = line.substr(colon2 + 1);
    const bool is_version2 = controllers == ",,";
    const bool is_version1_memory = controllers.find(",memory,") != std::string::npos;
    if (is_version2)
      min_bytes = std::min(min_bytes, available_in_parents_bytes(root / "sys/fs/cgroup", group, kVersion2Files));
    if (is_version1_memory)
      min_bytes = std::min(min_bytes, available_in_parents_bytes(root / "sys/fs/cgroup/memory", group, kVersion1Files));
  }
  return min_bytes;
}

std::size_t last_cache_bytes() {
  constexpr std::size_t kUsualBytes = std::size_t{32} << 20;
  long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kUsualBytes;
}

}  // namespace busbw
