#pragma once
// Tests of how a process ends, or of what it leaves.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace busbw::test {

/// Runs `body` in a child and returns its wait status.
template <class Body>
int status_of_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace busbw::test
