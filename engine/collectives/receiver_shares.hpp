#pragma once
// Shares of the receivers in a skewed alltoallv (--skew).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/collective_settings.hpp"

namespace busbw {

/// Shares are whole multiples of 2^-kShareBits. The product of a share and a count of 16-byte blocks fits into 64 bits,
/// because a count is at most 2^39 blocks.
inline constexpr int kShareBits = 24;

/// Makes the shares of `ranks` receivers in a Zipf distribution: the k-th most popular rank gets a share in proportion
/// to k^-exponent. `seed` determines the order of popularity.
ReceiverShares zipf_shares(double exponent, std::uint64_t seed, int ranks);
/// Makes equal shares of `hot_count` receivers, which `seed` selects. The other ranks receive nothing.
ReceiverShares hot_shares(int hot_count, std::uint64_t seed, int ranks);

/// Elements that each rank sends to rank `to`. Each rank sends `count` elements in total. As in the patterns of
/// nccl-tests, the size for a receiver is a multiple of 16 bytes. Only the last rank with a share also gets the rest of
/// `count`.
std::size_t elements_of_receiver(const ReceiverShares& shares, std::size_t count, std::size_t element_bytes, int to);

/// Parses the value of --skew: "zipf:EXPONENT", "hot:RANKS", both optionally with ",seed=N", or "file:PATH". Throws
/// UsageError with the allowed values.
TrafficPattern parse_skew(std::string_view text, int ranks);

}  // namespace busbw
