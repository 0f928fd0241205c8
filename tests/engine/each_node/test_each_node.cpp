#include "each_node/each_node.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "support_errors.hpp"
#include "temporary_folder.hpp"

namespace busbw {
namespace {

/// Command of process 0 that keeps its input in a file, and exits with `code`.
std::string collector(const std::string& file, int code) {
  return "sh -c 'cat >" + file + "; exit " + std::to_string(code) + "'";
}

std::string content(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("outputs are escaped, one line for each node") {
  CHECK(output_lines({{"n1", "", "a\n\"b\""}, {"n2", "it failed", ""}}) ==
        "{\"node\":\"n1\",\"problem\":\"\",\"output\":\"a\\n\\\"b\\\"\"}\n"
        "{\"node\":\"n2\",\"problem\":\"it failed\",\"output\":\"\"}\n");
}

TEST_CASE("one process gives its own output to the command of process 0, whose exit code it has") {
  const test::TemporaryFolder folder;
  CHECK(run_each_node("engine", {"echo record", collector(folder.file("input"), 5)}, World{}) == 5);
  CHECK(content(folder.file("input")).ends_with("\"problem\":\"\",\"output\":\"record\\n\"}\n"));
}

TEST_CASE("a missing command of process 0 is a problem of the environment") {
  CHECK(run_each_node("engine", {"true", "no-such-command-of-busbw"}, World{}) == 3);
}

TEST_CASE("another number of commands is refused") {
  CHECK(sentence_of<UsageError>([] { run_each_node("engine", {"true"}, World{}); }).find("two commands") !=
        std::string::npos);
}

}  // namespace
}  // namespace busbw
