#include "output/crash_safe_document.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/support/error.hpp"
#include "golden.hpp"
#include "size_limit.hpp"

using namespace busbw;
using nlohmann::json;
using test::read_file;
using test::TemporaryFolder;

namespace {

CrashSafeDocument new_document(const TemporaryFolder& folder) {
  return CrashSafeDocument(NewFile::create(folder.file("doc.json"), "-J"));
}

std::string item(int number, std::size_t bytes) {
  return (number == 0 ? "" : ",") + ("\"" + std::to_string(number) + std::string(bytes, 'x') + "\"");
}

}  // namespace

TEST_CASE("the document is complete after every call, for any size of added text") {
  constexpr std::size_t kMaxBytes = 200'000;  // the whole file is read each time
  for (const std::size_t bytes : {1, 100, 1500, 4085, 4096, 9000}) {
    const TemporaryFolder folder;
    CrashSafeDocument document = new_document(folder);
    document.start("{\"items\":[", "]}");
    std::string all = "{\"items\":[";
    int number = 0;
    for (; number < 200 && all.size() < kMaxBytes; ++number) {
      document.insert(item(number, bytes));
      all += item(number, bytes);
      const std::string now = read_file(document.path());
      REQUIRE(json::accept(now));
      REQUIRE(now.find(std::to_string(number) + std::string(bytes, 'x') + "\"") != std::string::npos);
    }
    // Exceeds the size that is copied at once, first as added text, then as existing text.
    for (const std::size_t added : {std::size_t{700'000}, bytes}) {
      document.insert(item(number, added));
      all += item(number++, added);
    }
    CHECK(json::parse(read_file(document.path())).at("items").size() == static_cast<std::size_t>(number));
    document.finish("],\"end\":2}");
    CHECK(read_file(document.path()) == all + "],\"end\":2}");  // without padding
    CHECK_FALSE(std::filesystem::exists(document.path() + ".new"));
  }
}

TEST_CASE("a full disk leaves the document as it was") {
  const TemporaryFolder folder;
  CrashSafeDocument document = new_document(folder);
  document.start("[1", "]");
  const std::string before = read_file(document.path());
  {
    const test::SizeLimit limit(3000);
    CHECK_THROWS_AS(document.insert("," + std::string(5000, '1')), EnvironmentError);
  }
  CHECK(read_file(document.path()) == before);
  CHECK_FALSE(std::filesystem::exists(document.path() + ".new"));
  document.insert(",2");
  CHECK(json::parse(read_file(document.path())) == json({1, 2}));
}

TEST_CASE("a discarded document is removed and stays removed") {
  const TemporaryFolder folder;
  CrashSafeDocument document = new_document(folder);
  document.start("[1", "]");
  document.discard();
  document.insert(",2");
  document.finish("]");
  CHECK(std::filesystem::is_empty(std::filesystem::path(document.path()).parent_path()));
}

TEST_CASE("a program killed at any moment leaves a complete document") {
  for (int round = 0; round < 100; ++round) {
    const TemporaryFolder folder;
    CrashSafeDocument document = new_document(folder);
    document.start("[0", "]");
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        for (int number = 1;; ++number) document.insert(item(number, round % 2 == 0 ? 1400 : 300));
      } catch (const Error&) {
        ::_exit(1);
      }
    }
    ::usleep(static_cast<useconds_t>(500 + round * 37 % 2500));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(json::accept(read_file(document.path())));
  }
}
