#include "each_node/node_command.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>

#include "common/os/provenance.hpp"
#include "measure/clock.hpp"
#include "temporary_folder.hpp"

namespace busbw {
namespace {

/// Waits for the shell of a killed command, because a later test expects that this process has no children.
void wait_for_killed_shell() { waitpid(-1, nullptr, 0); }

TEST_CASE("the output of a command is complete") {
  const NodeOutput result = run_node_command("seq 20000");
  CHECK(result.node == host_name());
  CHECK(result.problem.empty());
  CHECK(result.output.starts_with("1\n2\n"));
  CHECK(result.output.ends_with("\n20000\n"));
}

TEST_CASE("a command without an input does not wait for one") { CHECK(run_node_command("cat").problem.empty()); }

TEST_CASE("a failed command keeps its output and states its exit code") {
  const NodeOutput result = run_node_command("sh -c 'echo part; exit 7'");
  CHECK(result.problem == "the command failed with exit code 7");
  CHECK(result.output == "part\n");
  CHECK(run_node_command("sh -c 'kill -9 $$'").problem == "the command failed with exit code 137");
}

TEST_CASE("a missing command is a problem of the node") {
  CHECK(run_node_command("no-such-command-of-busbw").problem == "the command is missing");
}

TEST_CASE("a command that hangs is killed with its children") {
  const test::TemporaryFolder folder;
  const std::string marker = folder.file("marker");
  const double start_s = monotonic_s();
  const NodeOutput result =
      run_node_command("sh -c 'trap \"\" TERM INT; (sleep 1; touch " + marker + ") & sleep 30'", {.time_s = 0.3});
  wait_for_killed_shell();
  CHECK(result.problem == "the command did not end within 0.3 s");
  CHECK(monotonic_s() - start_s < 5);
  CHECK(run_node_command("sleep 1.2").problem.empty());
  CHECK_FALSE(std::filesystem::exists(marker));
}

TEST_CASE("a command with an endless output is killed") {
  const NodeOutput result = run_node_command("yes", {.time_s = 30, .output_bytes = 1000});
  wait_for_killed_shell();
  CHECK(result.problem == "the command printed more than 1000 bytes");
}

TEST_CASE("a child that keeps the output open does not delay the end of the command") {
  const double start_s = monotonic_s();
  const NodeOutput result = run_node_command("sh -c 'sleep 30 & echo done'");
  CHECK(result.output == "done\n");
  CHECK(result.problem.empty());
  CHECK(monotonic_s() - start_s < 5);
}

}  // namespace
}  // namespace busbw
