// Hashes a file in parts, so that a large library needs little memory.
#include "common/os/file_hash.hpp"

#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "common/support/printable.hpp"
#include "common/support/sha256.hpp"

namespace busbw {

std::optional<std::string> hash_of_file(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return std::nullopt;
  Sha256 hash;
  std::vector<std::byte> chunk(std::size_t{1} << 20);
  std::size_t read_bytes = 0;
  while ((read_bytes = std::fread(chunk.data(), 1, chunk.size(), file.get())) == chunk.size()) hash.add_blocks(chunk);
  if (std::ferror(file.get())) return std::nullopt;
  return hexadecimal(hash.finish(std::span(chunk).first(read_bytes)));
}

std::shared_future<std::optional<std::string>> start_hash_of_file(const std::string& path) {
  return std::async(std::launch::async, hash_of_file, path).share();
}

}  // namespace busbw
