// Publishes the address of process 0 as a file in a folder that all processes share, and reads it. The file appears in
// one atomic step, and readers refuse files of other users.
#include "rendezvous/store/address_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "common/os/descriptor.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

/// Throws EnvironmentError with the cause in errno.
[[noreturn]] void throw_system_error(const char* action, const std::string& path) {
  throw EnvironmentError(
      fmt::format("{} {}: {}; set BUSBW_RENDEZVOUS to a folder that every process of the job can "
                  "write to",
                  action, path, std::strerror(errno)));
}

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_system_error("cannot write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

/// True if the file belongs to this user. File systems may map user ids, so the owner of a new file in the same folder
/// counts as this user, too.
bool is_of_this_user(const struct stat& status, const std::string& folder) {
  if (status.st_uid == geteuid()) return true;
  std::string draft = folder + "/draft-XXXXXX";
  const Descriptor own(mkostemp(draft.data(), O_CLOEXEC));
  if (!own.is_open()) return false;
  unlink(draft.c_str());
  struct stat own_status{};
  return fstat(own.number(), &own_status) == 0 && own_status.st_uid == status.st_uid;
}

/// Makes a new file in a folder visible on NFS, which caches failed lookups for up to a minute (acdirmax in nfs(5)).
/// Opening a folder revalidates the cache, unless the mount has the option nocto. If the folder is missing too, opens
/// its parent.
void refresh_cached_folder(const std::string& folder) {
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open() || errno != ENOENT) return;
  const std::size_t slash = folder.find_last_of('/');
  const bool has_parent = slash != std::string::npos && slash > 0;
  if (has_parent) refresh_cached_folder(folder.substr(0, slash));
}

/// Reads a whole file. Nothing if the file does not exist. Throws EnvironmentError if the file belongs to another user,
/// because anyone with access to the folder could have created it.
std::optional<Bytes> read_file(const std::string& folder, const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ESTALE) return std::nullopt;
    throw_system_error("cannot read", path);
  }
  struct stat status{};
  if (fstat(file.number(), &status) != 0) throw_system_error("cannot read", path);
  if (!is_of_this_user(status, folder))
    throw EnvironmentError(
        fmt::format("{} was written by user {}, and this process runs as user {}; remove it, or set BUSBW_RENDEZVOUS "
                    "to a folder that no other user can write to",
                    path, status.st_uid, geteuid()));
  Bytes content(kMaxFileBytes + 1);
  const ssize_t length = read_fully(file, content.data(), content.size());
  if (length < 0) throw_system_error("cannot read", path);
  if (length == std::ssize(content)) {
    errno = EFBIG;
    throw_system_error("cannot use", path);
  }
  content.resize(static_cast<std::size_t>(length));
  return content;
}

/// Creates a file with its whole content in one atomic step: writes a draft and links it. False if the file already
/// exists.
bool create_file(const std::string& folder, const std::string& path, std::span<const std::byte> bytes) {
  std::string draft = folder + "/draft-XXXXXX";
  {
    const Descriptor file(mkostemp(draft.data(), O_CLOEXEC));
    if (!file.is_open()) throw_system_error("cannot create a file in", folder);
    write_all(file.number(), bytes, draft);
  }
  const bool is_created = link(draft.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(draft.c_str());
  if (is_created) return true;
  errno = error;
  if (error != EEXIST) throw_system_error("cannot create", path);
  return false;
}

}  // namespace

AddressFile::AddressFile(std::string folder)
    : folder_(std::move(folder)), path_(folder_ + "/address-of-process-0.busbw") {}

void AddressFile::publish(const Bytes& address) {
  made_folder_ = mkdir(folder_.c_str(), 0700) == 0;
  if (!made_folder_ && errno != EEXIST) throw_system_error("cannot create the folder", folder_);
  if (!create_file(folder_, path_, address))
    throw EnvironmentError(
        fmt::format("{} already exists, from another job; remove the folder, or set another one in "
                    "BUSBW_RENDEZVOUS",
                    path_));
  is_published_ = true;
}

std::optional<Bytes> AddressFile::read() const {
  refresh_cached_folder(folder_);
  return read_file(folder_, path_);
}

void AddressFile::withdraw() noexcept {
  if (is_published_) unlink(path_.c_str());
  if (made_folder_) rmdir(folder_.c_str());
}

}  // namespace busbw
