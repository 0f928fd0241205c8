#pragma once
// A file that this run creates and owns: it never touches one that was there before.
#include <cstdint>
#include <string>
#include <string_view>

namespace busbw {

class NewFile {
 public:
  /// Creates `path`. Throws UsageError naming `option`, the path and the remedy when it exists or cannot be created.
  static NewFile create(const std::string& path, std::string_view option);
  /// Creates `path`, or the first of path.0, path.1, ... that does not exist, as nccl-tests does for -J. Throws
  /// UsageError as `create` does.
  static NewFile create_numbered(const std::string& path, std::string_view option);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  const std::string& path() const { return path_; }
  /// Bytes that the file holds.
  std::uint64_t size_bytes() const { return size_bytes_; }

  /// Replaces everything from byte `offset` on by `text`, with one write call where the system takes it whole. Throws
  /// EnvironmentError naming the path; what the file held before `offset` is still there then, and nothing else.
  void replace_from(std::uint64_t offset, std::string_view text);
  void append(std::string_view text) { replace_from(size_bytes_, text); }

  /// Removes the file again: for a start-up that failed after it was created. Later writes are ignored.
  void discard();

 private:
  NewFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  void close();

  int descriptor_;
  std::string path_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace busbw
