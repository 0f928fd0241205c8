#pragma once
// The hash of a whole file, computed while the program does other things: a library of 200 MB takes some tenths of a
// second.
#include <future>
#include <optional>
#include <string>

namespace busbw {

/// SHA-256 of a file in hexadecimal digits; missing where the file cannot be read.
std::optional<std::string> hash_of_file(const std::string& path);

/// The same from a thread of its own. Not to be carried over a fork before `get` has returned once.
class FileHash {
 public:
  explicit FileHash(const std::string& path);
  /// Waits for it. Safe from any thread.
  std::optional<std::string> get() const { return hash_.get(); }

 private:
  std::shared_future<std::optional<std::string>> hash_;
};

}  // namespace busbw
