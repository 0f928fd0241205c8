#include "output/private_stdout.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

using namespace busbw;

namespace {

std::string everything_from(int descriptor) {
  std::string text;
  char part[1000];
  for (ssize_t got = 0; (got = read(descriptor, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  return text;
}

void write_all(int descriptor, const std::string& text) {
  REQUIRE(write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

}  // namespace

TEST_CASE("claim_stdout: library output does not break lines") {
  int out[2];
  int err[2];
  REQUIRE(pipe(out) == 0);
  REQUIRE(pipe(err) == 0);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    const int own = claim_stdout();
    write_all(own, "{\"kind\":");
    std::printf("n1:1 [0] NCCL ");
    std::fflush(stdout);
    write_all(own, "\"row\"}\n");
    std::printf("INFO ring\n");
    _exit(own > STDERR_FILENO ? 0 : 1);
  }
  close(out[1]);
  close(err[1]);
  CHECK(everything_from(out[0]) == "{\"kind\":\"row\"}\n");
  CHECK(everything_from(err[0]) == "n1:1 [0] NCCL INFO ring\n");
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  close(out[0]);
  close(err[0]);
}
