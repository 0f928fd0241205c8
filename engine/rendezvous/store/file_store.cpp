#include "rendezvous/store/file_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/os/descriptor.hpp"
#include "common/support/fnv1a.hpp"
#include "rendezvous/store/store_replies.hpp"

namespace busbw {
namespace {

constexpr std::string_view kFileSuffix = ".busbw";
constexpr std::size_t kMaxFileNameBytes = 160;  // without suffixes and hash; file systems allow 255 bytes in all
constexpr int kFirstPauseMs = 1;
constexpr int kMaxPauseMs = 50;

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

/// Refreshes the client's cache of a folder by opening it. NFS caches failed lookups for up to a minute (acdirmax in
/// nfs(5)), and opening a folder revalidates it unless it is mounted with nocto.
void refresh_cached_folder(const std::string& folder) {
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open() || errno != ENOENT) return;
  const std::size_t slash = folder.find_last_of('/');
  if (slash != std::string::npos && slash > 0) refresh_cached_folder(folder.substr(0, slash));
}

/// Reads a whole file. Nothing if it does not exist. Throws EnvironmentError if it belongs to another user, because
/// anyone with access to the folder could have created it.
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
  Bytes content;
  std::byte buffer[4096];
  for (;;) {
    const ssize_t read_bytes = read(file.number(), buffer, sizeof(buffer));
    if (read_bytes < 0 && errno == EINTR) continue;
    if (read_bytes < 0) throw_system_error("cannot read", path);
    if (read_bytes == 0) return content;
    content.insert(content.end(), buffer, buffer + read_bytes);
    if (content.size() > Store::kMaxValueBytes + sizeof(int)) {
      errno = EFBIG;
      throw_system_error("cannot use", path);
    }
  }
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

[[noreturn]] void throw_foreign_content(const std::string& path) {
  throw EnvironmentError(
      fmt::format("{} was not written by a process of this job; remove the folder, or set another one in "
                  "BUSBW_RENDEZVOUS",
                  path));
}

}  // namespace

FileStore::FileStore(std::string folder, double limit_s, std::function<void()> on_wait, bool makes_folder)
    : folder_(std::move(folder)), limit_s_(limit_s), on_wait_(std::move(on_wait)) {
  if (!makes_folder) return;
  made_folder_ = mkdir(folder_.c_str(), 0700) == 0;
  if (!made_folder_ && errno != EEXIST) throw_system_error("cannot create the folder", folder_);
}

std::string FileStore::path_of(const std::string& key, const std::string& suffix) const {
  if (key.empty() || key.size() > kMaxKeyBytes)
    throw EnvironmentError(fmt::format("a key of {} bytes; allowed are 1 to {}", key.size(), kMaxKeyBytes));
  std::string name;
  for (const char letter : key) {
    if (std::isalnum(static_cast<unsigned char>(letter)) || letter == '-') {
      name += letter;
    } else {
      name += fmt::format("_{:02x}", static_cast<unsigned char>(letter));
    }
  }
  if (name.size() > kMaxFileNameBytes) name = fmt::format("{}~{:016x}", name.substr(0, kMaxFileNameBytes), fnv1a(key));
  return fmt::format("{}/{}{}{}", folder_, name, suffix, kFileSuffix);
}

/// No key has this path, because path_of() writes "+" in keys as "_2b".
std::string FileStore::failure_path() const { return fmt::format("{}/+failure{}", folder_, kFileSuffix); }

template <class Attempt>
auto FileStore::wait_for(const Attempt& attempt, const StoreRequest& request) {
  int pause_ms = kFirstPauseMs;
  for (double waited_s = 0;; waited_s += pause_ms * 1e-3) {
    on_wait_();
    if (failure()) throw JobAborted();
    if (auto value = attempt()) return std::move(*value);
    if (waited_s >= limit_s_) {
      MessageWriter missing_members;  // of a barrier; `amount` is 0 for other requests
      for (int member = 0; member < request.amount; ++member)
        if (!read_file(folder_, path_of(request.key, fmt::format("@{}", member))))
          missing_members.add(static_cast<std::int32_t>(member));
      throw wait_timeout_error(request, missing_members.bytes(), limit_s_);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    pause_ms = std::min(2 * pause_ms, kMaxPauseMs);
  }
}

void FileStore::set(const std::string& key, std::span<const std::byte> value, int reads) {
  if (failure()) throw JobAborted();
  if (value.size() > kMaxValueBytes)
    throw EnvironmentError(
        fmt::format("{}: a value of {} bytes; allowed are up to {}", key, value.size(), kMaxValueBytes));
  Bytes file = MessageWriter().add(reads).bytes();
  file.insert(file.end(), value.begin(), value.end());
  if (!create_file(folder_, path_of(key), file))
    throw EnvironmentError(
        fmt::format("{} already exists, from another job; remove the folder, or set another one in "
                    "BUSBW_RENDEZVOUS",
                    path_of(key)));
  own_paths_.push_back(path_of(key));
}

std::optional<Bytes> FileStore::try_get(const std::string& key) {
  const std::string path = path_of(key);
  refresh_cached_folder(folder_);
  auto file = read_file(folder_, path);
  if (!file) return std::nullopt;
  if (file->size() < sizeof(int)) throw_foreign_content(path);
  const bool is_for_one_read = MessageReader(*file).take<int>() == 1;
  if (is_for_one_read) unlink(path.c_str());
  file->erase(file->begin(), file->begin() + sizeof(int));
  return file;
}

Bytes FileStore::get(const std::string& key) {
  return wait_for([&] { return try_get(key); }, {.op = StoreRequest::Op::get, .key = key});
}

std::vector<Bytes> FileStore::get_all(std::span<const std::string> keys) {
  std::vector<Bytes> values;
  for (const std::string& key : keys) values.push_back(get(key));
  return values;
}

std::int64_t FileStore::add(const std::string& key, std::int64_t amount) {
  if (failure()) throw JobAborted();
  const std::string path = path_of(key, "+");
  const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.is_open() || flock(file.number(), LOCK_EX) != 0) throw_system_error("cannot lock", path);
  std::int64_t sum = 0;
  if (pread(file.number(), &sum, sizeof(sum), 0) < 0) throw_system_error("cannot read", path);
  sum += amount;
  if (pwrite(file.number(), &sum, sizeof(sum), 0) != sizeof(sum)) throw_system_error("cannot write", path);
  return sum;
}

void FileStore::barrier(const std::string& key, int member, int members) {
  if (failure()) throw JobAborted();
  if (member < 0 || member >= members || !create_file(folder_, path_of(key, fmt::format("@{}", member)), {}))
    throw EnvironmentError(fmt::format("{}: member {} of {} is invalid or arrived twice", key, member, members));
  const auto all_arrived = [&]() -> std::optional<bool> {
    for (int arriving_member = 0; arriving_member < members; ++arriving_member)
      if (access(path_of(key, fmt::format("@{}", arriving_member)).c_str(), F_OK) != 0) return std::nullopt;
    return true;
  };
  wait_for(all_arrived, {.op = StoreRequest::Op::barrier, .key = key, .amount = members, .member = member});
}

void FileStore::abort(const Failure& failure) noexcept {
  try {
    create_file(folder_, failure_path(), MessageWriter().add(failure.exit).add(failure.message).bytes());
  } catch (const std::exception&) {
    // The folder is inaccessible, so no other process can be informed.
  }
}

std::optional<Failure> FileStore::failure() {
  const auto file = read_file(folder_, failure_path());
  if (!file) return std::nullopt;
  try {
    MessageReader reader(*file);
    const auto exit = reader.take<ExitCode>();
    return Failure{exit, reader.take_text()};
  } catch (const BrokenMessage&) {
    throw_foreign_content(failure_path());
  }
}

void FileStore::clear() noexcept {
  for (const std::string& path : own_paths_) unlink(path.c_str());
  if (made_folder_) rmdir(folder_.c_str());
}

}  // namespace busbw
