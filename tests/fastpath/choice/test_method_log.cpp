#include "fastpath/choice/method_log.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/engine/output/size_limit.hpp"
#include "tests/engine/temporary_folder.hpp"

using namespace busbw::fastpath;
using busbw::test::SizeLimit;
using busbw::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

constexpr StartedOperation kSmall{Collective::all_reduce, "half", 1024, 4, false, {Method::exchange, 8, 512}};

TEST_CASE("every different operation is logged once") {
  const TemporaryFolder folder;
  MethodLog log(folder.file("log"));
  CHECK(log.is_on());
  CHECK_FALSE(fs::exists(folder.file("log")));
  for (int i = 0; i < 3; ++i) log.log_operation(kSmall);
  StartedOperation other = kSmall;
  other.in_place = true;
  log.log_operation(other);
  other.config = {};
  other.size_bytes = 1 << 30;
  log.log_operation(other);
  other.collective = Collective::alltoall;
  other.type = "float";
  log.log_operation(other);
  log.log_message("a word\nand more");
  CHECK(lines_of(folder.file("log")) ==
        std::vector<std::string>{"all_reduce half 1024 B out of place ranks=4: exchange blocks=8 threads=512",
                                 "all_reduce half 1024 B in place ranks=4: exchange blocks=8 threads=512",
                                 "all_reduce half 1073741824 B in place ranks=4: nccl",
                                 "alltoall float 1073741824 B in place ranks=4: nccl", "a word\\nand more"});
}

TEST_CASE("without a destination nothing is written") {
  MethodLog log("");
  CHECK_FALSE(log.is_on());
  log.log_operation(kSmall);
  log.log_message("a word");
}

TEST_CASE("lines of many threads are whole, and no two are the same") {
  const TemporaryFolder folder;
  MethodLog log(folder.file("log"));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&log] {
      for (std::size_t size = 1; size <= 50; ++size) {
        StartedOperation one = kSmall;
        one.size_bytes = size;
        log.log_operation(one);
      }
    });
  threads.clear();
  auto lines = lines_of(folder.file("log"));
  CHECK(lines.size() == 50);
  for (const auto& line : lines) CHECK(line.ends_with(" B out of place ranks=4: exchange blocks=8 threads=512"));
}

TEST_CASE("with %p in the name each process has its own file, also a process that is forked later") {
  const TemporaryFolder folder;
  MethodLog log(folder.file("%p-%%p"));
  log.log_message("parent");
  const pid_t child = fork();
  if (child == 0) {
    log.log_message("child");
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  const auto file = [&](pid_t process) {
    return folder.file(std::to_string(process) + "-%" + std::to_string(process));
  };
  CHECK(lines_of(file(getpid())) == std::vector<std::string>{"parent"});
  CHECK(lines_of(file(child)) == std::vector<std::string>{"child"});
}

/// Returns the start of the text that `run` prints on stderr.
template <typename Run>
std::string stderr_of(Run run) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const int original = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  run();
  dup2(original, STDERR_FILENO);
  close(original);
  close(ends[1]);
  std::array<char, 1024> text{};
  const ssize_t bytes = read(ends[0], text.data(), text.size());
  close(ends[0]);
  return {text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

TEST_CASE("a partly written line is reported, but not with the reason of an earlier error") {
  const TemporaryFolder folder;
  MethodLog log(folder.file("log"));
  const std::string message = stderr_of([&] {
    const SizeLimit limit(4);
    errno = ENOENT;
    log.log_message("more than four bytes");
  });
  CHECK(lines_of(folder.file("log")) == std::vector<std::string>{"more"});
  CHECK(message.find("only a part of a line was written") != std::string::npos);
}

TEST_CASE("an unwritable log file causes no error in the program") {
  const TemporaryFolder folder;
  MethodLog log(folder.file("absent/log"));
  log.log_operation(kSmall);
  log.log_message("a word");
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace
