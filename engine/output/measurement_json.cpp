// JSON of the samples and of the comparisons. --skew compares uneven counts with balanced ones. --with compares an
// operation next to a neighbor with the operation alone.
#include "output/measurement_json.hpp"

#include "output/units.hpp"

namespace busbw {

void write_samples(JsonBuilder& json, const std::vector<std::vector<double>>& rank_samples_s) {
  constexpr int kSampleDecimals = 3;  // of a microsecond, so 1 ns, the resolution of the clocks
  const auto write_sample = [&](double sample_s) { json.fixed(sample_s * kUsPerS, kSampleDecimals); };
  json.values("samples_us", rank_samples_s,
              [&](const std::vector<double>& samples_s) { json.array(samples_s, write_sample); });
}

void write_skew(JsonBuilder& json, const std::optional<SkewComparison>& comparison) {
  json.object_or_null("skew", comparison, [&](const SkewComparison& skew) {
    json.field("busiest_bytes", skew.busiest_bytes);
    json.field("imbalance", skew.imbalance);
    json.field("balanced_time_us", scaled(skew.balanced_time_s, kUsPerS));
    json.field("bound_us", scaled(skew.bound_s, kUsPerS));
    json.field("ratio_to_bound", skew.ratio_to_bound);
  });
}

void write_together(JsonBuilder& json, const std::optional<TogetherResult>& result) {
  json.object_or_null("together", result, [&](const TogetherResult& together) {
    json.field("time_us", scaled(together.time_s, kUsPerS));
    json.field("ratio_to_alone", together.ratio_to_alone);
    json.field("device_time_us", scaled(together.device_time_s, kUsPerS));
    write_samples(json, together.rank_samples_s);
    json.field("active_percent", together.active_share * 100);
    json.field("neighbor_operations", together.neighbor_operations);
    json.field("neighbor_time_us", scaled(together.neighbor_time_s, kUsPerS));
  });
}

}  // namespace busbw
