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

TEST_CASE("text is appended, written over and read back") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  file.append("one");
  file.append("two");
  CHECK(read_file(file.path()) == "onetwo");
  file.overwrite(2, "E-T");
  CHECK(read_file(file.path()) == "onE-To");
  CHECK(file.read(1, 4) == "nE-T");
  CHECK(file.size_bytes() == 6);
}

TEST_CASE("a replacement takes over the path of its file") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  file.append("old");
  NewFile next = file.create_replacement();
  CHECK(next.path() == folder.file("out") + ".new");
  CHECK(file.create_replacement().path() == folder.file("out") + ".new.0");
  next.append("newer");
  file.replace_with(std::move(next));
  CHECK(file.path() == folder.file("out"));
  CHECK(read_file(file.path()) == "newer");
  CHECK_FALSE(std::filesystem::exists(folder.file("out.new")));
  file.append("!");
  CHECK(read_file(file.path()) == "newer!");
}

TEST_CASE("a file that cannot grow keeps its complete lines, and the error names it") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "--records");
  file.append("first line\n");
  {
    const test::SizeLimit limit(file.size_bytes() + 5);
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
