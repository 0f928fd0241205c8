#include "common/support/stderr_message.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "support_job.hpp"

using namespace busbw;

TEST_CASE("print_stderr: one line on stderr, with control characters escaped") {
  ChildProcess child([] {
    int ends[2];
    if (pipe(ends) != 0) return std::string("no pipe");
    dup2(ends[1], STDERR_FILENO);
    print_stderr("all_reduce_perf", "BUSBW_RANK=1\n\x1b[31m: no number");
    char text[200];
    const ssize_t got = read(ends[0], text, sizeof text);
    return std::string(text, static_cast<std::size_t>(got));
  });
  CHECK(child.said() == "all_reduce_perf: BUSBW_RANK=1\\n\\x1b[31m: no number\n");
}
