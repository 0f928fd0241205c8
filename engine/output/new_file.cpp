// Creates, locks, appends to and replaces output files.
#include "output/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr int kClosedDescriptor = -1;

int open_new(const std::string& path) { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }

/// Locks an open file until it is closed. Returns false if another run has locked the file. Returns true on a file
/// system without locks, on which open_abandoned() takes no file.
bool lock(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

/// Opens an existing empty file that no run has open. A run that was killed during its start left this file, which must
/// not block the same command. Returns -1 and sets errno to EEXIST for any other file.
int open_abandoned(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor >= 0) {
    struct stat status{};
    const bool is_unused = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const bool is_regular_file = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    const bool is_empty = status.st_size == 0 && status.st_nlink > 0;  // 0 links: removed meanwhile
    if (is_unused && is_regular_file && is_empty) return descriptor;
    ::close(descriptor);
  }
  errno = EEXIST;
  return kClosedDescriptor;
}

/// Opens `path` if it does not exist or is abandoned, and locks it.
int open_new_or_abandoned(const std::string& path) {
  const int descriptor = open_new(path);
  if (descriptor < 0) return errno == EEXIST ? open_abandoned(path) : descriptor;
  if (lock(descriptor)) return descriptor;
  ::close(descriptor);  // another run took the file for abandoned before it was locked
  errno = EEXIST;
  return kClosedDescriptor;
}

/// Opens the first of path, path.0, path.1, ... that does not exist, and sets `path` to its name.
int open_new_numbered(std::string& path) {
  const std::string base = path;
  int descriptor = open_new(path);
  for (unsigned number = 0; descriptor < 0 && errno == EEXIST; ++number) {
    path = fmt::format("{}.{}", base, number);
    descriptor = open_new(path);
  }
  return descriptor;
}

std::string error_text(int error) { return std::system_category().message(error); }

[[noreturn]] void throw_cannot_create(const std::string& path, std::string_view option, int error) {
  if (error == EEXIST) {
    throw UsageError(fmt::format("option {}: the file '{}' exists; name a new file, or remove it", option, path));
  }
  throw UsageError(
      fmt::format("option {}: cannot create the file '{}': {}; name a new file in an existing folder "
                  "with write permission",
                  option, path, error_text(error)));
}

[[noreturn]] void throw_io_error(std::string_view action, const std::string& path, int error) {
  throw EnvironmentError(
      fmt::format("cannot {} '{}': {}; earlier output is kept; free disk space there or name "
                  "another file",
                  action, path, error_text(error)));
}

}  // namespace

NewFile NewFile::create(const std::string& path, std::string_view option) {
  const int descriptor = open_new_or_abandoned(path);
  if (descriptor < 0) throw_cannot_create(path, option, errno);
  return NewFile(descriptor, path);
}

NewFile NewFile::create_numbered(const std::string& path, std::string_view option) {
  std::string created = path;
  const int descriptor = open_new_numbered(created);
  if (descriptor < 0) throw_cannot_create(created, option, errno);
  return NewFile(descriptor, created);
}

NewFile::NewFile(NewFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, kClosedDescriptor)),
      path_(other.path_),
      size_bytes_(other.size_bytes_) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, kClosedDescriptor);
  path_ = other.path_;
  size_bytes_ = other.size_bytes_;
  return *this;
}

void NewFile::append(std::string_view text) {
  if (is_discarded()) return;
  if (const int error = write_all(text); error != 0) {
    // Removes the incomplete line, because readers cannot parse it.
    if (::ftruncate(descriptor_, static_cast<off_t>(size_bytes_)) != 0)
      throw_io_error("write to or shorten", path_, errno);
    throw_io_error("write to", path_, error);
  }
  size_bytes_ += text.size();
}

void NewFile::replace_content(std::string_view text) {
  if (is_discarded()) return;
  std::string new_path = path_ + ".new";
  const int descriptor = open_new_numbered(new_path);
  if (descriptor < 0) throw_io_error("create", new_path, errno);
  NewFile replacement(descriptor, new_path);
  try {
    replacement.append(text);
    if (std::rename(new_path.c_str(), path_.c_str()) != 0) throw_io_error("replace", path_, errno);
  } catch (const Error&) {
    replacement.discard();
    throw;
  }
  replacement.path_ = path_;
  *this = std::move(replacement);
}

void NewFile::discard() {
  if (is_discarded()) return;
  ::unlink(path_.c_str());
  close();
}

/// Writes all of `text` at the end. Returns 0 or the errno of the failed write.
int NewFile::write_all(std::string_view text) {
  std::uint64_t offset = size_bytes_;
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

void NewFile::close() {
  if (!is_discarded()) ::close(std::exchange(descriptor_, kClosedDescriptor));
}

}  // namespace busbw
