#pragma once
// Base of collectives that change only how another collective is issued.
#include <optional>
#include <string>
#include <string_view>

#include "collectives/collective.hpp"

namespace busbw {

/// Describes the same data and traffic as another collective. Derived classes issue the operation.
class ForwardingCollective : public Collective {
 public:
  std::string_view no_redop_name() const override { return inner_.no_redop_name(); }
  bool synchronizes_all_ranks() const override { return inner_.synchronizes_all_ranks(); }
  bool in_place_defined() const override { return inner_.in_place_defined(); }
  std::string rank_count_error(int ranks) const override { return inner_.rank_count_error(ranks); }
  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override {
    return inner_.shape(count, element_bytes, ranks);
  }
  Segments send_segments(const Shape& shape, const RankPosition& position) const override {
    return inner_.send_segments(shape, position);
  }
  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return inner_.expected_segments(shape, position);
  }
  std::optional<int> max_peers() const override { return inner_.max_peers(); }
  int operations_per_run() const override { return inner_.operations_per_run(); }
  int weighted_calls_per_run(int ranks) const override { return inner_.weighted_calls_per_run(ranks); }
  std::optional<RankSummary> rank_summary(const Shape& shape, std::size_t element_bytes, int ranks) const override {
    return inner_.rank_summary(shape, element_bytes, ranks);
  }
  std::optional<TrafficBalance> traffic_balance(const Shape& shape, std::size_t element_bytes,
                                                int ranks) const override {
    return inner_.traffic_balance(shape, element_bytes, ranks);
  }

 protected:
  /// This object has the facts of `inner`, which must outlive it.
  explicit ForwardingCollective(const Collective& inner) : Collective(inner), inner_(inner) {}

  const Collective& inner_;
};

}  // namespace busbw
