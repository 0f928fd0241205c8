#include "measure/samples.hpp"

#include <doctest/doctest.h>

#include "measure/checker.hpp"
#include "values/message.hpp"

using namespace busbw;

namespace {

template <class Value>
Value sent(const Value& value) {
  return MessageReader(MessageWriter().add(value).bytes()).take<Value>();
}

}  // namespace

TEST_CASE("samples arrive as they were sent") {
  const Samples samples{
      .operation_s = {1, 2.5},
      .skipped_iterations = 10,
      .first_iteration_s = 11,
      .start_delay = StartDelay{.median_s = 12, .median_ci95_s = {{13, 14}}},
      .total = {.elapsed_s = 3, .issue_s = 4, .operations = 5},
      .device_s = 6,
      .device_operations = 7,
      .clock = SampleClock::gated_device_events,
      .clock_before = DeviceClockState{.clock_hz = 8, .max_clock_hz = std::nullopt, .throttle_reasons = {}},
      .clock_after =
          DeviceClockState{.clock_hz = std::nullopt, .max_clock_hz = 9, .throttle_reasons = {"heat", "power"}}};
  const Samples got = sent(samples);
  CHECK(got.operation_s == samples.operation_s);
  CHECK(got.skipped_iterations == 10);
  CHECK(got.first_iteration_s == 11);
  REQUIRE(got.start_delay);
  CHECK(got.start_delay->median_s == 12);
  CHECK(got.start_delay->median_ci95_s == std::pair{13.0, 14.0});
  CHECK(got.total.elapsed_s == 3);
  CHECK(got.total.issue_s == 4);
  CHECK(got.total.operations == 5);
  CHECK(got.device_s == 6);
  CHECK(got.device_operations == 7);
  CHECK(got.clock == SampleClock::gated_device_events);
  REQUIRE(got.clock_before);
  CHECK(got.clock_before->clock_hz == 8);
  CHECK_FALSE(got.clock_before->max_clock_hz);
  REQUIRE(got.clock_after);
  CHECK_FALSE(got.clock_after->clock_hz);
  CHECK(got.clock_after->max_clock_hz == 9);
  CHECK(got.clock_after->throttle_reasons == std::vector<std::string>{"heat", "power"});
}

TEST_CASE("missing clock values stay missing") {
  const Samples got = sent(Samples{});
  CHECK_FALSE(got.first_iteration_s);
  CHECK_FALSE(got.start_delay);
  CHECK_FALSE(got.clock_before);
  CHECK_FALSE(got.clock_after);
  CHECK(got.clock == SampleClock::host);
}

TEST_CASE("check results arrive as they were sent") {
  const RankCheckResult got = sent(RankCheckResult{9, {{2, "receive buffer", -3, "1", "2"}}});
  CHECK(got.wrong_elements == 9);
  REQUIRE(got.first_wrong.size() == 1);
  CHECK(got.first_wrong[0].rank == 2);
  CHECK(got.first_wrong[0].place == "receive buffer");
  CHECK(got.first_wrong[0].index == -3);
  CHECK(got.first_wrong[0].expected == "1");
  CHECK(got.first_wrong[0].got == "2");
}

TEST_CASE("a truncated message is an error") {
  Bytes bytes = MessageWriter().add(Samples{.operation_s = {1, 2}}).bytes();
  bytes.pop_back();
  CHECK_THROWS_AS(MessageReader(bytes).take<Samples>(), BrokenMessage);
}
