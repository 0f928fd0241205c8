#pragma once
// Hash of texts that must agree between processes. Not for secrets.
#include <cstdint>
#include <string_view>

namespace busbw {

/// FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv/). Unlike std::hash, it is equal in all processes of a job.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace busbw
