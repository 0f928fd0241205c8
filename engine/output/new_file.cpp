#include "output/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "support/error.hpp"

namespace busbw {
namespace {

constexpr int kClosed = -1;

int open_new(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

std::string reason(int error) { return std::system_category().message(error); }

[[noreturn]] void refuse(const std::string& path, std::string_view option, int error) {
  if (error == EEXIST) {
    throw UsageError(fmt::format("option {}: the file '{}' exists; name a new file, or remove that one", option, path));
  }
  throw UsageError(fmt::format("option {}: cannot create the file '{}': {}; name a new file in a folder that exists "
                               "and that you may write to",
                               option, path, reason(error)));
}

}  // namespace

NewFile NewFile::create(const std::string& path, std::string_view option) {
  const int descriptor = open_new(path);
  if (descriptor < 0) refuse(path, option, errno);
  return NewFile(descriptor, path);
}

NewFile NewFile::create_numbered(const std::string& path, std::string_view option) {
  std::string candidate = path;
  for (unsigned number = 0;; ++number) {
    const int descriptor = open_new(candidate);
    if (descriptor >= 0) return NewFile(descriptor, candidate);
    if (errno != EEXIST) refuse(candidate, option, errno);
    candidate = fmt::format("{}.{}", path, number);
  }
}

NewFile::NewFile(NewFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, kClosed)),
      path_(std::move(other.path_)),
      size_bytes_(other.size_bytes_) {}

NewFile::~NewFile() { close(); }

void NewFile::replace_from(std::uint64_t offset, std::string_view text) {
  if (descriptor_ == kClosed) return;
  std::uint64_t end = offset;
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(end));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      size_bytes_ = offset;
      const bool cut = ::ftruncate(descriptor_, static_cast<off_t>(offset)) == 0;
      throw EnvironmentError(fmt::format("cannot write to '{}': {}; {}; make room there or name another file", path_,
                                         reason(error),
                                         cut ? "what was written before is kept" : "its last line is incomplete"));
    }
    end += static_cast<std::uint64_t>(written);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (end < size_bytes_ && ::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) {
    throw EnvironmentError(fmt::format("cannot shorten '{}': {}; name a file on another file system", path_,
                                       reason(errno)));
  }
  size_bytes_ = end;
}

void NewFile::discard() {
  if (descriptor_ == kClosed) return;
  ::unlink(path_.c_str());
  close();
}

void NewFile::close() {
  if (descriptor_ != kClosed) ::close(std::exchange(descriptor_, kClosed));
}

}  // namespace busbw
