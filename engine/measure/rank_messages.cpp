// Each read_ function takes the fields in the order in which its _message function adds them.
#include "measure/rank_messages.hpp"

#include <utility>

namespace busbw {
namespace {

void add(MessageWriter& writer, const std::optional<double>& value) {
  writer.add(value.has_value()).add(value.value_or(0));
}

std::optional<double> take_optional(MessageReader& reader) {
  const bool is_set = reader.take<bool>();
  const auto value = reader.take<double>();
  return is_set ? std::optional(value) : std::nullopt;
}

void add(MessageWriter& writer, const std::optional<DeviceClockState>& clock_state) {
  writer.add(clock_state.has_value());
  if (!clock_state) return;
  add(writer, clock_state->clock_hz);
  add(writer, clock_state->max_clock_hz);
  writer.add(clock_state->throttle_reasons.size());
  for (const std::string& reason : clock_state->throttle_reasons) writer.add(reason);
}

std::optional<DeviceClockState> take_clock_state(MessageReader& reader) {
  if (!reader.take<bool>()) return std::nullopt;
  DeviceClockState clock_state;
  clock_state.clock_hz = take_optional(reader);
  clock_state.max_clock_hz = take_optional(reader);
  for (auto remaining = reader.take<std::size_t>(); remaining > 0; --remaining)
    clock_state.throttle_reasons.push_back(reader.take_text());
  return clock_state;
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
  add(writer, samples.clock_before);
  add(writer, samples.clock_after);
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
  samples.clock_before = take_clock_state(reader);
  samples.clock_after = take_clock_state(reader);
  return samples;
}

Bytes check_result_message(const RankCheckResult& check_result) {
  MessageWriter writer;
  writer.add(check_result.wrong_elements).add(check_result.first_wrong.size());
  for (const WrongElement& wrong : check_result.first_wrong)
    writer.add(wrong.rank).add(wrong.place).add(wrong.index).add(wrong.expected).add(wrong.got);
  return writer.bytes();
}

RankCheckResult read_check_result(const Bytes& bytes) {
  MessageReader reader(bytes);
  RankCheckResult check_result;
  check_result.wrong_elements = reader.take<std::uint64_t>();
  const auto kept = reader.take<std::size_t>();
  for (std::size_t i = 0; i < kept; ++i) {
    WrongElement wrong;
    wrong.rank = reader.take<int>();
    wrong.place = reader.take_text();
    wrong.index = reader.take<std::int64_t>();
    wrong.expected = reader.take_text();
    wrong.got = reader.take_text();
    check_result.first_wrong.push_back(std::move(wrong));
  }
  return check_result;
}

}  // namespace busbw
