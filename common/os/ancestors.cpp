#include "common/os/ancestors.hpp"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace busbw {
namespace {

constexpr std::size_t kMaxAncestors = 64;  // real chains are much shorter; the bound ends a loop in a faulty /proc

struct Status {
  std::string command;
  long parent = 0;
};

/// Reads /proc/PID/stat: "17 (a (strange) name) S 16 ...". The name may contain parentheses, so the last one ends it.
std::optional<Status> status_of(long pid, const std::filesystem::path& proc) {
  std::ifstream file(proc / std::to_string(pid) / "stat");
  const std::string line{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Status status{line.substr(open + 1, close - open - 1)};
  std::istringstream rest(line.substr(close + 1));
  std::string state;
  if (!(rest >> state >> status.parent)) return std::nullopt;
  return status;
}

}  // namespace

Ancestors ancestors_of(long pid, const std::filesystem::path& proc) {
  Ancestors found;
  auto status = status_of(pid, proc);
  while (status && status->parent > 0 && found.size() < kMaxAncestors) {
    const long parent = status->parent;
    status = status_of(parent, proc);
    if (status) found.push_back({parent, status->command});
  }
  return found;
}

Ancestors process_ancestors() { return ancestors_of(getpid()); }

}  // namespace busbw
