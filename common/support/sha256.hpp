#pragma once
// SHA-256 and HMAC-SHA-256, for file hashes and for proofs of the job's token.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace busbw {

/// A SHA-256 hash.
using Digest = std::array<std::byte, 32>;

/// SHA-256 (FIPS 180-4) of data in parts: whole blocks, then the rest.
class Sha256 {
 public:
  static constexpr std::size_t kBlockBytes = 64;
  /// `fastest` uses the processor's SHA instructions if it has them.
  enum class Implementation { fastest, portable };
  explicit Sha256(Implementation implementation = Implementation::fastest);

  /// Adds a multiple of kBlockBytes.
  Sha256& add_blocks(std::span<const std::byte> blocks);
  /// Adds the last bytes, of any length, and returns the hash. Call it once.
  Digest finish(std::span<const std::byte> rest);

 private:
  bool uses_sha_instructions_;
  std::array<std::uint32_t, 8> state_;
  std::uint64_t added_bytes_ = 0;
};

Digest sha256(std::string_view text);

/// Returns the HMAC-SHA-256 (RFC 2104), which proves knowledge of the key without revealing it.
Digest hmac_sha256(std::string_view key, std::string_view message);

}  // namespace busbw
