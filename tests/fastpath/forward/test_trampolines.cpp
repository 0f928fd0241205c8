// Tests of the library as programs use it. Each case starts a program (fakes/caller.cpp) with its own environment.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/engine/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;

// The address sanitizer requires its runtime to be the first library of a program. LD_PRELOAD comes before it.
const std::string kPreload =
    std::string("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD=") + FORWARD + " ";
const std::string kReal = std::string("BUSBW_FASTPATH_NCCL=") + NEW_NCCL + " ";
const std::string kOld = std::string("BUSBW_FASTPATH_NCCL=") + OLD_NCCL + " ";
const std::string kOpened = std::string(CALLER) + " " + FORWARD + " ";
const std::string kLinked = std::string(LINKED_CALLER) + " - ";

/// Returns the output of a command, both streams together, and "exit N" if its exit status is not 0.
std::string output(const std::string& command) {
  std::string all;
  FILE* const pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  REQUIRE(pipe);
  char part[4096];
  while (const auto got = std::fread(part, 1, sizeof(part), pipe)) all.append(part, got);
  const int status = pclose(pipe);
  if (status != 0) all += "exit " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  return all;
}

long count(const std::string& text, const std::string& part) {
  long found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Returns the output of a program that calls the real library directly.
std::string called_directly() { return output(std::string(CALLER) + " " + NEW_NCCL + " all"); }

/// A folder with a copy of this library under the file name of the real one.
class RenamedLibrary {
 public:
  RenamedLibrary() { fs::copy_file(FORWARD, file()); }
  std::string file() const { return folder_.file("libnccl.so.2"); }
  std::string library_path(const std::string& further = "") const {
    return "LD_LIBRARY_PATH=" + folder_.path() + further + " ";
  }

 private:
  busbw::test::TemporaryFolder folder_;
};

TEST_CASE("every kind of argument and result passes through unchanged") {
  const auto expected = called_directly();
  CHECK(expected.starts_with("version 22809, pnccl 22810, joined 0 "));
  CHECK(output(kReal + kOpened + "all") == expected);
  CHECK(output(kPreload + kLinked + "all") == expected);
  CHECK(output(kReal + kPreload + CALLER + " - all") == expected);
}

TEST_CASE("every function calls the real function of the same name") {
  const auto said = output(std::string("BUSBW_FASTPATH_NCCL=") + EVERY_NCCL + " " + kOpened + "every");
  CHECK(said == output(std::string(CALLER) + " " + EVERY_NCCL + " every"));
  CHECK(count(said, "\n") == 1);
  CHECK(said.ends_with(" functions\n"));
}

TEST_CASE("many threads may make the first call at once") {
  for (int i = 0; i < 5; ++i) CHECK(output(kReal + kOpened + "race") == "8 of 8 threads\n");
}

TEST_CASE("a function that the real library lacks fails and is reported once") {
  const auto said = output(kOld + kOpened + "function ncclCommGrow ncclCommGrow pncclCommGrow ncclTeamRankToWorld");
  CHECK(count(said, "ncclCommGrow: 5\n") == 3);
  CHECK(count(said, "ncclTeamRankToWorld: 0\n") == 1);
  CHECK(count(said, std::string("libbusbw_nccl.so: NCCL 2.18.5 (") + OLD_NCCL +
                        ") has no ncclCommGrow, so calls of it fail; install NCCL 2.29.2 or newer\n") == 1);
  CHECK(count(said, "has no pncclCommGrow, so") == 1);
  CHECK(count(output(kOld + kOpened + "text ncclGetLastError"), "ncclGetLastError: this NCCL has no error texts\n") ==
        1);
}

TEST_CASE("without a real library calls fail, and the error is printed once") {
  const std::string none = "BUSBW_FASTPATH_NCCL=/nowhere ";
  const auto said = output(none + kOpened + "function ncclAllReduce ncclAllReduce ncclTeamRankToWorld");
  CHECK(count(said, "ncclAllReduce: 2\n") == 2);
  CHECK(count(said, "ncclTeamRankToWorld: 0\n") == 1);
  CHECK(count(said, "libbusbw_nccl.so: BUSBW_FASTPATH_NCCL=/nowhere cannot be loaded: ") == 1);
  CHECK(count(output(none + kOpened + "text ncclGetErrorString"),
              "ncclGetErrorString: libbusbw_nccl.so has found no NCCL\n") == 1);
}

TEST_CASE("a real library that is installed later is found then") {
  const busbw::test::TemporaryFolder folder;
  const auto link = folder.file("nccl.so");
  const auto said = output("BUSBW_FASTPATH_NCCL=" + link + " " + kOpened + "late " + NEW_NCCL + " " + link);
  const auto expected = output(std::string(CALLER) + " " + NEW_NCCL + " after " + NEW_NCCL);
  CHECK(count(said, "libbusbw_nccl.so: ") == 1);
  CHECK(said.find("\n2\n" + expected) != said.npos);
}

TEST_CASE("a real library that the program has opened is taken") {
  const auto expected = output(std::string(CALLER) + " " + NEW_NCCL + " after " + NEW_NCCL);
  CHECK(expected.size() > 4);
  CHECK(output(kPreload + CALLER + " - after " + NEW_NCCL) == expected);
  CHECK(output(kOpened + "after " + NEW_NCCL) == expected);
}

TEST_CASE("the log names the library that calls are delegated to") {
  CHECK(output("BUSBW_FASTPATH_LOG=stderr " + kReal + kOpened + "after " + NEW_NCCL)
            .starts_with(std::string("busbw fastpath: delegating to NCCL 2.28.9 (") + NEW_NCCL + ")\n"));
}

TEST_CASE("with LD_PRELOAD an unknown function reaches the real library") {
  CHECK(output(kPreload + kLinked + "function ncclOfTomorrow") == "ncclOfTomorrow: 42\n");
}

TEST_CASE("a program that never calls NCCL loads no NCCL and prints nothing") {
  CHECK(output(kPreload + "/bin/echo still here") == "still here\n");
  CHECK(output("BUSBW_FASTPATH_NCCL=/nowhere " + kPreload + "/bin/echo still here") == "still here\n");
}

TEST_CASE("under the file name of the real library, this library calls the real one and not itself") {
  const RenamedLibrary disguise;
  const auto expected = called_directly();
  // The program's libnccl.so.2 is this library.
  const auto linked = disguise.library_path() + LINKED_CALLER + " - ";
  CHECK(output(disguise.library_path() + LINKED_CALLER + " - alias ncclAllReduce") ==
        "ncclAllReduce: " + disguise.file() + "\n");
  CHECK(output(kReal + linked + "all") == expected);
  CHECK(output(disguise.library_path(":" + fs::path(NEW_NCCL).parent_path().string()) + LINKED_CALLER + " - all") ==
        expected);
  CHECK(output("BUSBW_NCCL_LIBRARY=" + std::string(NEW_NCCL) + " " + linked + "all") == expected);
  // Preloaded and linked at the same time.
  CHECK(output(kReal + kPreload + linked + "all") == expected);
  CHECK(count(output(kPreload + linked + "function ncclCommGrow"), "ncclCommGrow: ") == 1);
  CHECK(count(output("BUSBW_FASTPATH_NCCL=" + disguise.file() + " " + kOpened + "function ncclAllReduce"),
              "is libbusbw_nccl.so itself") == 1);
}

}  // namespace
