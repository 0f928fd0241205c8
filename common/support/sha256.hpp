#pragma once
// SHA-256 and HMAC-SHA-256, for file hashes and for proofs of the job's token.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace busbw {

/// A SHA-256 hash.
using Digest = std::array<std::byte, 32>;

/// Incremental SHA-256 (FIPS 180-4).
class Sha256 {
 public:
  /// `fastest` uses the processor's SHA instructions if it has them.
  enum class Implementation { fastest, portable };
  explicit Sha256(Implementation implementation = Implementation::fastest);

  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text);
  /// Returns the hash of all added bytes. Call it last and only once.
  Digest digest();

 private:
  static constexpr std::size_t kBlockBytes = 64;

  void process_blocks(const std::byte* bytes, std::size_t blocks);

  bool uses_sha_instructions_;
  std::array<std::uint32_t, 8> state_ = kInitialState;
  std::array<std::byte, kBlockBytes> block_{};  // added bytes that do not yet fill a block
  std::size_t buffered_bytes_ = 0;              // number of such bytes
  std::uint64_t total_bytes_ = 0;

  // First 32 bits of the fractional parts of the square roots of the first 8 primes: FIPS 180-4, 5.3.3.
  static constexpr std::array<std::uint32_t, 8> kInitialState{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

/// Returns the hash of `text`.
Digest sha256(std::string_view text);

/// Returns the HMAC-SHA-256 (RFC 2104), which proves knowledge of the key without revealing it.
Digest hmac_sha256(std::string_view key, std::string_view message);

/// Returns 64 lower-case hexadecimal digits.
std::string hexadecimal(const Digest& digest);

}  // namespace busbw
