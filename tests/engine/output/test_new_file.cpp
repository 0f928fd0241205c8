#include "output/new_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <utility>

#include "common/support/error.hpp"
#include "golden.hpp"
#include "size_limit.hpp"

using namespace busbw;
using test::read_file;
using test::TemporaryFolder;

TEST_CASE("a new file never replaces an old one") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  NewFile::create(path, "--records").append("first");
  CHECK_THROWS_WITH_AS(NewFile::create(path, "--records"),
                       doctest::Contains(("option --records: the file '" + path + "' exists; name a new file").c_str()),
                       UsageError);
  CHECK(read_file(path) == "first");

  CHECK(NewFile::create_numbered(path, "-J").path() == path + ".0");
  CHECK(NewFile::create_numbered(path, "-J").path() == path + ".1");
}

TEST_CASE("an empty file is taken unless another run has it open") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  {
    const NewFile starting = NewFile::create(path, "--records");
    CHECK_THROWS_AS(NewFile::create(path, "--records"), UsageError);
  }
  NewFile::create(path, "--records").append("row");  // the first run was killed before it wrote
  CHECK(read_file(path) == "row");
  CHECK_THROWS_AS(NewFile::create(path, "--records"), UsageError);

  std::filesystem::create_symlink(folder.file("elsewhere"), folder.file("link"));
  CHECK_THROWS_AS(NewFile::create(folder.file("link"), "--records"), UsageError);
}

TEST_CASE("a path that cannot be created is a usage error with a remedy") {
  const TemporaryFolder folder;
  const std::string path = folder.file("no/such/folder/out");
  for (const auto create : {NewFile::create, NewFile::create_numbered}) {
    try {
      create(path, "-J");
      FAIL("created " << path);
    } catch (const UsageError& error) {
      const std::string sentence = error.what();
      CHECK(sentence.find("option -J") != std::string::npos);
      CHECK(sentence.find(path) != std::string::npos);
      CHECK(sentence.find("name a new file in an existing folder") != std::string::npos);
    }
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("no")));
}

TEST_CASE("text is appended") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  file.append("one");
  file.append("two");
  CHECK(read_file(file.path()) == "onetwo");
}

TEST_CASE("replaced content is complete, or unchanged after an error") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  file.append("old");
  file.replace_content("newer");
  CHECK(file.path() == folder.file("out"));
  CHECK(read_file(file.path()) == "newer");
  file.append("!");
  CHECK(read_file(file.path()) == "newer!");
  {
    const test::SizeLimit limit(100);
    CHECK_THROWS_AS(file.replace_content(std::string(200, 'x')), EnvironmentError);
  }
  CHECK(read_file(file.path()) == "newer!");
  CHECK_FALSE(std::filesystem::exists(folder.file("out.new")));
  file.discard();
  file.replace_content("late");
  CHECK_FALSE(std::filesystem::exists(file.path()));
}

TEST_CASE("a file that cannot grow keeps its complete lines, and the error names it") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "--records");
  file.append("first line\n");
  {
    const test::SizeLimit limit(std::string("first line\n").size() + 5);
    CHECK_THROWS_WITH_AS(file.append("second line\n"), doctest::Contains(file.path().c_str()), EnvironmentError);
  }
  CHECK(read_file(file.path()) == "first line\n");
  file.append("third line\n");
  CHECK(read_file(file.path()) == "first line\nthird line\n");
}

TEST_CASE("a discarded file is removed, and later writes are ignored") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  NewFile moved = std::move(file);
  moved.discard();
  CHECK_FALSE(std::filesystem::exists(moved.path()));
  moved.append("late");
  moved.discard();
  CHECK_FALSE(std::filesystem::exists(moved.path()));
}
