#include "common/os/file_hash.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <vector>

#include "common/os/descriptor.hpp"
#include "common/support/sha256.hpp"

namespace busbw {

std::optional<std::string> hash_of_file(const std::string& path) {
  constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  Sha256 hash;
  std::vector<std::byte> chunk(kChunkBytes);
  for (;;) {
    const ssize_t read_bytes = read(file.number(), chunk.data(), chunk.size());
    if (read_bytes < 0 && errno == EINTR) continue;
    if (read_bytes < 0) return std::nullopt;
    if (read_bytes == 0) return hexadecimal(hash.digest());
    hash.add(std::span(chunk).first(static_cast<std::size_t>(read_bytes)));
  }
}

FileHash::FileHash(const std::string& path)
    : hash_(std::async(std::launch::async, [path] { return hash_of_file(path); }).share()) {}

}  // namespace busbw
