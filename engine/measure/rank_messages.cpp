#include "measure/rank_messages.hpp"

#include <utility>

namespace busbw {
namespace {

void add(MessageWriter& writer, const std::optional<double>& value) {
  writer.add(value.has_value()).add(value.value_or(0));
}

std::optional<double> take_optional(MessageReader& reader) {
  const bool is_there = reader.take<bool>();
  const auto value = reader.take<double>();
  return is_there ? std::optional(value) : std::nullopt;
}

void add(MessageWriter& writer, const std::optional<DeviceClockState>& condition) {
  writer.add(condition.has_value());
  if (!condition) return;
  add(writer, condition->clock_hz);
  add(writer, condition->max_clock_hz);
  writer.add(condition->throttle_reasons.size());
  for (const std::string& reason : condition->throttle_reasons) writer.add(reason);
}

std::optional<DeviceClockState> take_condition(MessageReader& reader) {
  if (!reader.take<bool>()) return std::nullopt;
  DeviceClockState condition;
  condition.clock_hz = take_optional(reader);
  condition.max_clock_hz = take_optional(reader);
  for (auto left = reader.take<std::size_t>(); left > 0; --left) condition.throttle_reasons.push_back(reader.take_text());
  return condition;
}

}  // namespace

Bytes samples_message(const Samples& samples) {
  MessageWriter writer;
  writer.add(samples.iteration_s).add(samples.skipped_iterations);
  add(writer, samples.first_iteration_s);
  writer.add(samples.total.elapsed_s)
      .add(samples.total.issue_s)
      .add(samples.total.operations)
      .add(samples.device_s)
      .add(samples.device_operations)
      .add(samples.on_device);
  add(writer, samples.before);
  add(writer, samples.after);
  return writer.bytes();
}

Samples read_samples(const Bytes& bytes) {
  MessageReader reader(bytes);
  Samples samples;
  samples.iteration_s = reader.take_doubles();
  samples.skipped_iterations = reader.take<std::uint64_t>();
  samples.first_iteration_s = take_optional(reader);
  samples.total.elapsed_s = reader.take<double>();
  samples.total.issue_s = reader.take<double>();
  samples.total.operations = reader.take<std::uint64_t>();
  samples.device_s = reader.take<double>();
  samples.device_operations = reader.take<std::uint64_t>();
  samples.on_device = reader.take<bool>();
  samples.before = take_condition(reader);
  samples.after = take_condition(reader);
  return samples;
}

Bytes findings_message(const RankCheckResult& findings) {
  MessageWriter writer;
  writer.add(findings.wrong_elements).add(findings.first.size());
  for (const WrongElement& wrong : findings.first)
    writer.add(wrong.rank).add(wrong.place).add(wrong.index).add(wrong.expected).add(wrong.got);
  return writer.bytes();
}

RankCheckResult read_findings(const Bytes& bytes) {
  MessageReader reader(bytes);
  RankCheckResult findings;
  findings.wrong_elements = reader.take<std::uint64_t>();
  const auto kept = reader.take<std::size_t>();
  for (std::size_t i = 0; i < kept; ++i) {
    WrongElement wrong;
    wrong.rank = reader.take<int>();
    wrong.place = reader.take_text();
    wrong.index = reader.take<std::int64_t>();
    wrong.expected = reader.take_text();
    wrong.got = reader.take_text();
    findings.first.push_back(std::move(wrong));
  }
  return findings;
}

}  // namespace busbw
