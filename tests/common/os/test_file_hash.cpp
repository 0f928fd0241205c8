#include "common/os/file_hash.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "common/support/printable.hpp"
#include "common/support/sha256.hpp"
#include "temporary_folder.hpp"

using namespace busbw;

TEST_CASE("hash_of_file: covers the whole file of any length") {
  const test::TemporaryFolder folder;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
    const std::string content(bytes, 'x');
    std::ofstream(folder.file("f")) << content;
    CHECK(hash_of_file(folder.file("f")) == hexadecimal(sha256(content)));
    CHECK(start_hash_of_file(folder.file("f")).get() == hexadecimal(sha256(content)));
  }
}

TEST_CASE("hash_of_file: nothing if the file cannot be read") {
  const test::TemporaryFolder folder;
  CHECK_FALSE(hash_of_file(folder.file("none")));
  CHECK_FALSE(hash_of_file(folder.path()));
  CHECK_FALSE(start_hash_of_file(folder.file("none")).get());
}
