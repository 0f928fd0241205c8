#include "common/os/process_status.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.hpp"

using namespace busbw;

namespace {

/// A fake /proc, removed with the object.
class Proc {
 public:
  void add(long pid, const std::string& stat) {
    const auto folder = std::filesystem::path(path()) / std::to_string(pid);
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "stat") << stat;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

std::string commands(const Ancestors& ancestors) {
  std::string all;
  for (const Ancestor& ancestor : ancestors) all += std::to_string(ancestor.pid) + ":" + ancestor.command + " ";
  return all;
}

}  // namespace

TEST_CASE("ancestors: the parent first, up to the first process") {
  Proc proc;
  proc.add(1, "1 (init) S 0 1 1");
  proc.add(20, "20 (slurmstepd) S 1 20 20 0");
  proc.add(30, "30 (a (strange) S 7 name) S 20 30");
  proc.add(40, "40 (all_reduce_perf) R 30 40");
  CHECK(commands(ancestors_of(40, proc.path())) == "30:a (strange) S 7 name 20:slurmstepd 1:init ");
  CHECK(commands(ancestors_of(1, proc.path())).empty());
  CHECK(commands(ancestors_of(99, proc.path())).empty());
}

TEST_CASE("ancestors: an unreadable entry ends the chain, and a cycle is bounded") {
  Proc proc;
  proc.add(40, "40 (program) R 30 40");
  CHECK(ancestors_of(40, proc.path()).empty());
  for (const char* stat : {"", "30", "30 (open", "30 )x( S 1", "30 (x)", "30 (x) S", "30 (x) S word"}) {
    proc.add(30, stat);
    CHECK(ancestors_of(40, proc.path()).empty());
  }
  proc.add(30, "30 (x) S 40");
  CHECK(ancestors_of(40, proc.path()).size() == 64);
}

TEST_CASE("ancestors: the ancestors of this process") {
  const pid_t own_pid = getpid();
  const pid_t child = fork();
  if (child == 0) {
    const Ancestors ancestors = process_ancestors();
    const bool right = !ancestors.empty() && ancestors.front().pid == own_pid && !ancestors.front().command.empty();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
