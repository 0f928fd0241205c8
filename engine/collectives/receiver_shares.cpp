// Parses --skew, and computes the share of the data that each rank receives.
#include "collectives/receiver_shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "common/support/error.hpp"
#include "common/support/near_miss.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

constexpr std::uint64_t kWhole = std::uint64_t{1} << kShareBits;  // the share of one rank that gets all data
constexpr std::size_t kBlockBytes = 16;  // shares are whole blocks, so that they are aligned
/// Maximum exponent of a Zipf distribution. Even with two ranks, the less popular one then gets only 2^-16 of the data.
constexpr double kMaxExponent = 16;

/// Ranks in their order of popularity: sorted by one random number per rank. The C++ standard defines these numbers, so
/// all hosts get the same order.
std::vector<int> popularity_order(std::uint64_t seed, int ranks) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(ranks));
  std::ranges::generate(keys, random);
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return keys[static_cast<std::size_t>(rank)]; });
  return order;
}

/// Shares in proportion to `weights`. Weight i is that of the i-th rank in the order of popularity.
ReceiverShares shares_of(const std::vector<double>& weights, std::uint64_t seed, int ranks) {
  std::vector<double> weight_of_rank(weights.size());
  const std::vector<int> order = popularity_order(seed, ranks);
  for (std::size_t i = 0; i < weights.size(); ++i) weight_of_rank[static_cast<std::size_t>(order[i])] = weights[i];
  const double sum = std::accumulate(weight_of_rank.begin(), weight_of_rank.end(), 0.0);
  ReceiverShares shares;
  double end = 0;
  for (const double weight : weight_of_rank) {
    end += weight;
    // All hosts must compute the same shares. Their libraries may round pow differently, in the last bits of `end`.
    // Rounding to a multiple of 1/kWhole removes these bits.
    shares.ends.push_back(static_cast<std::uint64_t>(std::llround(end / sum * static_cast<double>(kWhole))));
  }
  return shares;
}

}  // namespace

ReceiverShares zipf_shares(double exponent, std::uint64_t seed, int ranks) {
  std::vector<double> weights;
  for (int position = 1; position <= ranks; ++position) weights.push_back(std::pow(position, -exponent));
  return shares_of(weights, seed, ranks);
}

ReceiverShares hot_shares(int hot_count, std::uint64_t seed, int ranks) {
  std::vector<double> weights(static_cast<std::size_t>(ranks));
  std::fill_n(weights.begin(), hot_count, 1.0);
  return shares_of(weights, seed, ranks);
}

/// The elements after the last whole block, the rest, go to the last rank that has a share.
std::size_t elements_of_receiver(const ReceiverShares& shares, std::size_t count, std::size_t element_bytes, int to) {
  const auto receiver = static_cast<std::size_t>(to);
  const std::uint64_t start = receiver == 0 ? 0 : shares.ends[receiver - 1];
  const std::uint64_t end = shares.ends[receiver];
  if (start == end) return 0;  // no share, so it does not get the rest either
  const std::size_t block_elements = kBlockBytes / element_bytes;
  const std::size_t blocks = count / block_elements;
  const auto elements_before = [&](std::uint64_t share) { return ((blocks * share) >> kShareBits) * block_elements; };
  const std::size_t end_element = end == kWhole ? count : elements_before(end);
  return end_element - elements_before(start);
}

TrafficPattern parse_skew(std::string_view text, int ranks) {
  const auto invalid_skew = [&](const std::string& allowed) {
    return UsageError(fmt::format("--skew {}: allowed: {}", printable_value(text), allowed));
  };
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view kind = text.substr(0, colon);
  const std::string_view value = text.substr(std::min(colon + 1, text.size()));
  constexpr std::array<std::string_view, 3> kKinds{"zipf", "hot", "file"};
  const bool is_kind = std::ranges::find(kKinds, kind) != kKinds.end();
  if (!is_kind || value.empty())
    throw invalid_skew(fmt::format("zipf:EXPONENT, hot:RANKS or file:PATH{}", is_kind ? "" : suggestion(kind, kKinds)));
  if (kind == "file") return CountMatrix{read_count_matrix(std::string(value))};

  constexpr std::string_view kSeed = ",seed=";
  const std::size_t comma = std::min(value.find(','), value.size());
  const std::string_view parameter = value.substr(0, comma);
  const std::string_view seed_option = value.substr(comma);  // ",seed=N", or empty
  std::uint64_t seed = 0;
  if (!seed_option.empty()) {
    const auto number = seed_option.starts_with(kSeed) ? parse_digits(seed_option.substr(kSeed.size())) : std::nullopt;
    if (!number) throw invalid_skew(fmt::format("{}:{},seed=N with a whole number N", kind, parameter));
    seed = *number;
  }
  if (kind == "zipf") {
    const auto exponent = parse_number(parameter);
    if (!exponent || *exponent > kMaxExponent)
      throw invalid_skew(fmt::format("an exponent from 0 to {}", kMaxExponent));
    return zipf_shares(*exponent, seed, ranks);
  }
  const auto hot_count = parse_digits(parameter);
  if (!hot_count || *hot_count < 1 || *hot_count > static_cast<std::uint64_t>(ranks))
    throw invalid_skew(fmt::format("hot:RANKS with 1 to {} ranks", ranks));
  return hot_shares(static_cast<int>(*hot_count), seed, ranks);
}

}  // namespace busbw
