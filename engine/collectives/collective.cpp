// Counts, traffic and sent data of collectives, from their facts.
#include "collectives/collective.hpp"

#include <algorithm>

namespace busbw {
namespace {

/// Value of a factor's formula: "1", "(n-1)/n" or "2(n-1)/n".
double factor_value(std::string_view formula, int ranks) {
  if (formula == "1") return 1;
  const double others_share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return formula == "(n-1)/n" ? others_share : 2 * others_share;
}

}  // namespace

Shape Collective::shape(std::size_t count, std::size_t element_bytes, int ranks) const {
  const bool has_shares = facts_.sends_shares || facts_.receives_shares;
  return call_shape(has_shares ? share_of(count, element_bytes, ranks) : count, ranks);
}

Shape Collective::call_shape(std::size_t param_count, int ranks) const {
  const bool sends_shares = facts_.sends_shares;
  const bool receives_shares = facts_.receives_shares;
  return {.send_count = sends_shares ? param_count * ranks : param_count,
          .recv_count = receives_shares ? param_count * ranks : param_count,
          .param_count = param_count,
          .send_inplace_offset = receives_shares && !sends_shares ? param_count : 0,
          .recv_inplace_offset = sends_shares && !receives_shares ? param_count : 0};
}

Traffic Collective::traffic(const Shape& shape, std::size_t element_bytes, int ranks) const {
  const auto size_bytes = static_cast<double>(std::max(shape.send_count, shape.recv_count) * element_bytes);
  const double algbw_factor = factor_value(facts_.algbw_factor, ranks);
  // The quotient of equal formulas is 1 without a division. For one rank, (n-1)/n divided by (n-1)/n is 0/0.
  const bool has_equal_formulas = facts_.bus_factor == facts_.algbw_factor;
  return {.algbw_bytes = size_bytes * algbw_factor,
          .bus_factor = has_equal_formulas ? 1 : factor_value(facts_.bus_factor, ranks) / algbw_factor};
}

Segments Collective::send_segments(const Shape& shape, const RankPosition& position) const {
  if (facts_.only_root_sends && position.rank != position.root) return {};
  const auto source = reduces() ? Segment::Source::contribution : Segment::Source::moved;
  return {{.count = shape.send_count, .source = source, .source_rank = position.rank}};
}

}  // namespace busbw
