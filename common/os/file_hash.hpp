#pragma once
// SHA-256 of a whole file, computed in the background: a library of 200 MB takes tenths of a second.
#include <future>
#include <optional>
#include <string>

namespace busbw {

/// Returns the SHA-256 of a file in hexadecimal digits, or nothing if the file cannot be read.
std::optional<std::string> hash_of_file(const std::string& path);

/// Hash of a file, computed in its own thread. Do not fork before `get` has returned once.
class FileHash {
 public:
  explicit FileHash(const std::string& path);
  /// Waits for the result. Thread-safe.
  std::optional<std::string> get() const { return hash_.get(); }

 private:
  std::shared_future<std::optional<std::string>> hash_;
};

}  // namespace busbw
