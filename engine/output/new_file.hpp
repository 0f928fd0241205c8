#pragma once
// A file that this run creates and owns: it never touches one that was there before.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace busbw {

class NewFile {
 public:
  /// Creates `path`. Throws UsageError naming `option`, the path and the remedy when it exists or cannot be created.
  static NewFile create(const std::string& path, std::string_view option);
  /// Creates `path`, or the first of path.0, path.1, ... that does not exist, as nccl-tests does for -J. Throws
  /// UsageError as `create` does.
  static NewFile create_numbered(const std::string& path, std::string_view option);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile() { close(); }

  const std::string& path() const { return path_; }
  /// Bytes that the file holds.
  std::uint64_t size_bytes() const { return size_bytes_; }

  /// Adds `text`, with one write call where the system takes it whole. Throws EnvironmentError naming the path; the
  /// file then holds what it held before.
  void append(std::string_view text);
  /// Writes over bytes that are there. Throws EnvironmentError naming the path.
  void overwrite(std::uint64_t offset, std::string_view text);
  /// The `size` bytes from `offset` on. Throws EnvironmentError naming the path.
  std::string read(std::uint64_t offset, std::size_t size) const;

  /// A second new file in the same folder, to take the place of this one. Throws EnvironmentError.
  NewFile create_replacement() const;
  /// Becomes `next` under this file's path, in one step that nothing can see halfway. Throws EnvironmentError; this
  /// file is unchanged then.
  void replace_with(NewFile next);

  /// Removes the file again: for a start-up that failed after it was created. Later writes are ignored.
  void discard();
  bool discarded() const { return descriptor_ < 0; }

 private:
  NewFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int write(std::uint64_t offset, std::string_view text);
  void close();

  int descriptor_;
  std::string path_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace busbw
