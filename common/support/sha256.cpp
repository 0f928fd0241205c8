// SHA-256 (FIPS 180-4) twice: portable, and with the SHA instructions of x86-64 processors. Data is processed in blocks
// of 64 bytes. Each block updates the state, eight 32-bit words, in 64 rounds.
#include "common/support/sha256.hpp"

#include <algorithm>
#include <bit>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace busbw {
namespace {

// Constant of each round: the first 32 bits of the fractional parts of the cube roots of the first 64 primes
// (FIPS 180-4, 4.2.2).
constexpr std::array<std::uint32_t, 64> kRoundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::uint32_t load_big_endian(const std::byte* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return word;
}

using State = std::array<std::uint32_t, 8>;
constexpr std::size_t kBlockBytes = Sha256::kBlockBytes;

// First 32 bits of the fractional parts of the square roots of the first 8 primes (FIPS 180-4, 5.3.3).
constexpr State kInitialState{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Variable names as in FIPS 180-4, 6.2.2: w is the message schedule, a to h are the working variables.
void process_blocks_portable(State& state, const std::byte* bytes, std::size_t blocks) {
  for (; blocks > 0; --blocks, bytes += kBlockBytes) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t t = 0; t < 16; ++t) w[t] = load_big_endian(bytes + 4 * t);
    for (std::size_t t = 16; t < 64; ++t) {
      const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
      const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const State after_rounds{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < after_rounds.size(); ++i) state[i] += after_rounds[i];
  }
}

#ifdef __x86_64__
/// True if the processor has SHA instructions. With them, the hash of an NCCL library of 200 MB takes
/// 0.1 s instead of 1 s.
bool has_sha_instructions() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_SSE4_1) || !(ecx & bit_SSSE3)) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_SHA);
}

/// Same result as process_blocks_portable, four rounds per turn of the inner loop. The instruction sha256rnds2 runs two
/// rounds and requires the state in two registers, named by their words: abef and cdgh, highest word first. It returns
/// the new abef. The new cdgh is the old abef.
__attribute__((target("sha,sse4.1,ssse3"))) void process_blocks_with_instructions(State& state, const std::byte* bytes,
                                                                                  std::size_t blocks) {
  const auto word = [&](std::size_t i) { return static_cast<int>(state[i]); };
  const __m128i byte_swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);  // of each word
  __m128i abef = _mm_set_epi32(word(0), word(1), word(4), word(5));
  __m128i cdgh = _mm_set_epi32(word(2), word(3), word(6), word(7));
  for (; blocks > 0; --blocks, bytes += kBlockBytes) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    // The 16 newest words of the message schedule, four per register. w[i % 4] has the oldest four, which turn i
    // replaces.
    __m128i w[4];
    for (std::size_t i = 0; i < 16; ++i) {
      __m128i& current = w[i % 4];  // words of rounds 4 * i to 4 * i + 3
      const __m128i &ago3 = w[(i + 1) % 4], &ago2 = w[(i + 2) % 4], &ago1 = w[(i + 3) % 4];  // agoN: N turns earlier
      if (i < 4) {
        current = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + i), byte_swap);
      } else {  // computes w[t] as in the portable version
        const __m128i w_16_ago_plus_s0 = _mm_sha256msg1_epu32(current, ago3);  // w[t - 16] + s0
        const __m128i w_7_ago = _mm_alignr_epi8(ago1, ago2, 4);  // w[t - 7]
        current = _mm_sha256msg2_epu32(_mm_add_epi32(w_16_ago_plus_s0, w_7_ago), ago1);  // adds s1
      }
      const __m128i schedule_plus_constants =
          _mm_add_epi32(current, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kRoundConstants.data()) + i));
      const __m128i upper_words = _mm_shuffle_epi32(schedule_plus_constants, 0x0e);  // for the second two rounds
      const __m128i abef_after_2_rounds = _mm_sha256rnds2_epu32(cdgh, abef, schedule_plus_constants);
      const __m128i cdgh_after_2_rounds = abef;
      abef = _mm_sha256rnds2_epu32(cdgh_after_2_rounds, abef_after_2_rounds, upper_words);
      cdgh = abef_after_2_rounds;
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  std::array<std::uint32_t, 4> feba, hgdc;  // stored lowest word first, so in reverse order
  _mm_storeu_si128(reinterpret_cast<__m128i*>(feba.data()), abef);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(hgdc.data()), cdgh);
  state = {feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]};
}
#endif

}  // namespace

Sha256::Sha256(Implementation implementation) : uses_sha_instructions_(false), state_(kInitialState) {
#ifdef __x86_64__
  static const bool is_supported = has_sha_instructions();  // cached: cpuid takes microseconds in a virtual machine
  uses_sha_instructions_ = implementation == Implementation::fastest && is_supported;
#else
  static_cast<void>(implementation);
#endif
}

Sha256& Sha256::add_blocks(std::span<const std::byte> blocks) {
  added_bytes_ += blocks.size();
#ifdef __x86_64__
  if (uses_sha_instructions_) {
    process_blocks_with_instructions(state_, blocks.data(), blocks.size() / kBlockBytes);
    return *this;
  }
#endif
  process_blocks_portable(state_, blocks.data(), blocks.size() / kBlockBytes);
  return *this;
}

Digest Sha256::finish(std::span<const std::byte> rest) {
  const std::size_t incomplete_bytes = rest.size() % kBlockBytes;
  add_blocks(rest.first(rest.size() - incomplete_bytes));
  const std::uint64_t total_bits = (added_bytes_ + incomplete_bytes) * 8;
  // Padding (FIPS 180-4, 5.1.1): a one bit, zeros, then the length in bits in the last 8 bytes of a block.
  constexpr std::size_t kLengthBytes = 8;
  std::array<std::byte, 2 * kBlockBytes> end{};
  std::ranges::copy(rest.last(incomplete_bytes), end.begin());
  end[incomplete_bytes] = std::byte{0x80};
  const std::size_t end_bytes = incomplete_bytes < kBlockBytes - kLengthBytes ? kBlockBytes : 2 * kBlockBytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) end[end_bytes - 1 - i] = static_cast<std::byte>(total_bits >> 8 * i);
  add_blocks(std::span<const std::byte>(end).first(end_bytes));
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - i % 4 * 8));
  return digest;
}

Digest sha256(std::string_view text) { return Sha256().finish(bytes_of(text)); }

Digest hmac_sha256(std::string_view key, std::string_view message) {
  // hash((key ^ opad) + hash((key ^ ipad) + message)), with the names of RFC 2104. A long key is replaced by its hash.
  std::array<std::byte, kBlockBytes> inner_key{};
  if (key.size() > inner_key.size())
    std::ranges::copy(sha256(key), inner_key.begin());
  else
    std::ranges::copy(bytes_of(key), inner_key.begin());
  std::array<std::byte, kBlockBytes> outer_key = inner_key;
  for (std::byte& byte : inner_key) byte ^= std::byte{0x36};  // ipad
  for (std::byte& byte : outer_key) byte ^= std::byte{0x5c};  // opad
  const Digest inner_hash = Sha256().add_blocks(inner_key).finish(bytes_of(message));
  return Sha256().add_blocks(outer_key).finish(inner_hash);
}

}  // namespace busbw
