#include "output/comparison_json.hpp"

#include "output/units.hpp"

namespace busbw {
namespace {

constexpr int kSampleDecimals = 3;  // of a microsecond, so 1 ns, the resolution of the clocks

}  // namespace

void write_samples(JsonBuilder& json, const std::vector<std::vector<double>>& rank_samples_s) {
  const auto write_sample = [&json](double sample_s) { json.fixed(sample_s * kUsPerS, kSampleDecimals); };
  json.values("samples_us", rank_samples_s,
              [&](const std::vector<double>& samples_s) { json.array(samples_s, write_sample); });
}

void write_skew(JsonBuilder& json, const std::optional<SkewComparison>& skew) {
  json.key("skew");
  if (!skew) return json.value(nullptr);
  json.open_object();
  json.field("busiest_bytes", skew->busiest_bytes);
  json.field("imbalance", skew->imbalance);
  json.field("balanced_time_us", scaled(skew->balanced_time_s, kUsPerS));
  json.field("bound_us", scaled(skew->bound_s, kUsPerS));
  json.field("ratio_to_bound", skew->ratio_to_bound);
  json.close_object();
}

void write_together(JsonBuilder& json, const std::optional<TogetherResult>& together) {
  json.key("together");
  if (!together) return json.value(nullptr);
  json.open_object();
  json.field("time_us", scaled(together->time_s, kUsPerS));
  json.field("ratio_to_alone", together->ratio_to_alone);
  json.field("device_time_us", scaled(together->device_time_s, kUsPerS));
  write_samples(json, together->rank_samples_s);
  json.field("active_percent", together->active_share * 100);
  json.field("neighbor_operations", together->neighbor_operations);
  json.field("neighbor_time_us", scaled(together->neighbor_time_s, kUsPerS));
  json.close_object();
}

}  // namespace busbw
