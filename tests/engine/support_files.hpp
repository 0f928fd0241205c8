#pragma once
// Temporary files for tests.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace busbw {

/// A file with the given content. The destructor removes it.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content) : path_("/tmp/busbw-test-XXXXXX") {
    const int descriptor = mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    REQUIRE(write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    close(descriptor);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace busbw
