// Walks up the process tree.
#include "common/os/ancestors.hpp"

#include <unistd.h>

#include "common/os/process_status.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxAncestors = 64;  // real chains are much shorter; the bound ends a loop in a faulty /proc

}  // namespace

Ancestors ancestors_of(long pid, const std::filesystem::path& proc) {
  Ancestors ancestors;
  auto status = read_process_status(pid, proc);
  while (status && status->parent_pid > 0 && ancestors.size() < kMaxAncestors) {
    const long parent_pid = status->parent_pid;
    status = read_process_status(parent_pid, proc);
    if (status) ancestors.push_back({parent_pid, status->command});
  }
  return ancestors;
}

Ancestors process_ancestors() { return ancestors_of(getpid()); }

}  // namespace busbw
