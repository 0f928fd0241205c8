#pragma once
// A file that this run creates and owns, for -J and --records. Creation fails if the path has a file with content, so
// no earlier result is overwritten.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace busbw {

/// Closes the file when it is destroyed. Movable.
class NewFile {
 public:
  /// Creates `path`, or takes an empty file that a killed run left there. Throws UsageError that names `option` if
  /// another file has this path, or if the file cannot be created.
  static NewFile create(const std::string& path, std::string_view option);
  /// Creates `path`, or the first of path.0, path.1, ... that does not exist, as nccl-tests does for -J. Throws
  /// UsageError as `create` does.
  static NewFile create_numbered(const std::string& path, std::string_view option);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile() { close(); }

  const std::string& path() const { return path_; }

  /// Appends `text` with one write call, or with more if the system accepts only a part. After an error, removes the
  /// written part if possible, and throws EnvironmentError with the path.
  void append(std::string_view text);
  /// Replaces the content in one atomic step: a second file is written and moved to the path of this file. Throws
  /// EnvironmentError. The file is then unchanged.
  void replace_content(std::string_view text);

  /// Removes the file, for example if start-up failed after its creation. Later writes are ignored.
  void discard();
  bool is_discarded() const { return descriptor_ < 0; }

 private:
  NewFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int write_all(std::string_view text);
  void close();

  int descriptor_;
  std::string path_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace busbw
