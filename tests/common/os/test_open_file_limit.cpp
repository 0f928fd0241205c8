#include "common/os/open_file_limit.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "support_job.hpp"

using namespace busbw;

namespace {

/// Runs in a child process, because a hard limit cannot be raised again.
std::string with_limits(rlim_t soft, rlim_t hard, std::size_t needed) {
  ChildProcess child([=] {
    const rlimit limit{soft, hard};
    setrlimit(RLIMIT_NOFILE, &limit);
    const std::size_t allowed = raise_open_file_limit(needed);
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    return std::to_string(allowed) + (now.rlim_cur == allowed ? "" : ", which is not so");
  });
  return child.said();
}

}  // namespace

TEST_CASE("raise_open_file_limit: raises to the needed number, at most to the hard limit, and never lowers") {
  CHECK(with_limits(100, 200, 50) == "100");
  CHECK(with_limits(100, 200, 150) == "150");
  CHECK(with_limits(100, 200, 200) == "200");
  CHECK(with_limits(100, 200, 1000) == "200");
  CHECK(with_limits(100, 100, 1000) == "100");
}
