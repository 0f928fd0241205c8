#include "output/new_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "golden.hpp"
#include "support/error.hpp"

using busbw::NewFile;
using busbw::test::read_file;
using busbw::test::TemporaryFolder;

TEST_CASE("a new file never takes the place of an old one") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  NewFile::create(path, "--records").append("first");
  CHECK_THROWS_WITH_AS(NewFile::create(path, "--records"),
                       doctest::Contains(("option --records: the file '" + path + "' exists; name a new file").c_str()),
                       busbw::UsageError);
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
    } catch (const busbw::UsageError& error) {
      const std::string sentence = error.what();
      CHECK(sentence.find("option -J") != std::string::npos);
      CHECK(sentence.find(path) != std::string::npos);
      CHECK(sentence.find("name a new file in a folder that exists") != std::string::npos);
    }
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("no")));
}

TEST_CASE("text is appended, and its end replaced by longer or shorter text") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  file.append("one");
  file.append("two");
  CHECK(read_file(file.path()) == "onetwo");
  file.replace_from(3, "three and more");
  CHECK(read_file(file.path()) == "onethree and more");
  file.replace_from(3, "4");
  CHECK(read_file(file.path()) == "one4");
  CHECK(file.size_bytes() == 4);
}

TEST_CASE("a discarded file is gone, and later writes are ignored") {
  const TemporaryFolder folder;
  NewFile file = NewFile::create(folder.file("out"), "-J");
  NewFile moved = std::move(file);
  moved.discard();
  CHECK_FALSE(std::filesystem::exists(moved.path()));
  moved.append("late");
  moved.discard();
  CHECK_FALSE(std::filesystem::exists(moved.path()));
}
