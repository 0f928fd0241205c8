#include "flows/search_process.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/support/error.hpp"
#include "temporary_folder.hpp"

namespace busbw {
namespace {

/// A search that asks once, and exits with the number in the answer, or with 9. $2 has its descriptors:
/// ANSWERS,REQUESTS.
const std::string kSearch =
    "sh -c 'echo question >/dev/fd/${2#*,}; read answer </dev/fd/${2%,*}; exit ${answer:-9}' name";

std::string read_line(int descriptor) {
  std::string line;
  for (char character = 0; read(descriptor, &character, 1) == 1 && character != '\n';) line += character;
  return line;
}

/// Ends the search by an answer, and the job by a code. Returns the code of the process.
int run_search(const std::string& answer, int job_code) {
  SearchProcess search("engine", kSearch);
  CHECK(read_line(search.requests_fd()) == "question");
  if (!answer.empty()) REQUIRE(write(search.answers_fd(), answer.data(), answer.size()) > 0);
  return search.finish(job_code);
}

TEST_CASE("the exit code of the search is that of the process") {
  CHECK(run_search("0\n", 0) == 0);
  CHECK(run_search("6\n", 0) == 6);
}

TEST_CASE("a search without an answer sees the end of the job") { CHECK(run_search("", 0) == 9); }

TEST_CASE("a failure of the job is not hidden by the search") {
  CHECK(run_search("5\n", 3) == 3);
  CHECK(run_search("6\n", 4) == 4);
}

TEST_CASE("a lost process that the search reports is a finding") { CHECK(run_search("5\n", 4) == 5); }

TEST_CASE("the end of the search is the end of the requests") {
  SearchProcess search("engine", "sh -c 'exit 5' name");
  CHECK(read_line(search.requests_fd()).empty());
  CHECK(search.finish(0) == 5);
}

TEST_CASE("an interrupt of the job reaches the search, which then reports") {
  const test::TemporaryFolder folder;
  const std::string report = folder.file("report");
  SearchProcess search("engine", "sh -c 'trap \"echo $? >" + report + "; exit\" INT; echo ready >/dev/fd/${2#*,}; " +
                                     "for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done' name");
  CHECK(read_line(search.requests_fd()) == "ready");
  CHECK(search.finish(static_cast<int>(ExitCode::interrupted)) == 130);
  CHECK(std::filesystem::exists(report));
}

TEST_CASE("a search that a signal ends is a crash") {
  SearchProcess search("engine", "sh -c 'kill -9 $$' name");
  CHECK(search.finish(0) == 137);
}

TEST_CASE("a missing command is a problem of the environment") {
  SearchProcess search("engine", "no-such-command-of-busbw");
  CHECK(search.finish(0) == 3);
}

}  // namespace
}  // namespace busbw
