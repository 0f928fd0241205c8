#pragma once
// SHA-256 and HMAC-SHA-256: what a library's file holds in one word, and a proof of a secret that does not tell it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace busbw {

using Digest = std::array<std::byte, 32>;

/// SHA-256 (FIPS 180-4) of bytes that come in pieces.
class Sha256 {
 public:
  /// With the processor's instructions for it where there are any, or as every processor can.
  enum class Implementation { fastest, portable };
  explicit Sha256(Implementation way = Implementation::fastest);

  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text);
  /// Of all that was added. Nothing may be added or asked for after it.
  Digest digest();

 private:
  static constexpr std::size_t kBlockBytes = 64;

  void take_blocks(const std::byte* bytes, std::size_t blocks);

  bool by_instructions_;
  std::array<std::uint32_t, 8> state_ = kStart;
  std::array<std::byte, kBlockBytes> block_{};
  std::size_t in_block_ = 0;
  std::uint64_t total_bytes_ = 0;

  // The first 32 bits of the fractions of the square roots of the first 8 primes: FIPS 180-4, 5.3.3.
  static constexpr std::array<std::uint32_t, 8> kStart{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

Digest sha256(std::string_view text);

/// HMAC-SHA-256 (RFC 2104): who can say it knows the key, and it says nothing about the key.
Digest hmac_sha256(std::string_view key, std::string_view message);

/// 64 hexadecimal digits in lower case.
std::string hexadecimal(const Digest& digest);

}  // namespace busbw
