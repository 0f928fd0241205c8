#include "rendezvous/store/process_tracker.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "support_errors.hpp"

using namespace busbw;

// What follows from it over connections is in test_tcp_server.cpp.

namespace {

ClientInfo process(int number, int processes = 3) {
  return {true, number, processes, 2, 100 + number, "n" + std::to_string(number)};
}
ClientInfo rank_of(int number) {
  ClientInfo greeting = process(number);
  greeting.is_process = false;
  return greeting;
}

/// Of two ranks that have issued 3 operations each.
Bytes beat(Phase first, std::uint64_t first_steps, Phase second, std::uint64_t second_steps) {
  MessageWriter writer;
  for (const auto& [phase, steps] : {std::pair(first, first_steps), std::pair(second, second_steps)})
    writer.add(static_cast<std::uint8_t>(phase)).add(steps).add(std::uint64_t{3}).add(std::uint64_t{4096});
  return writer.bytes();
}

}  // namespace

TEST_CASE("Attendance: who has come, and how far it is") {
  ProcessTracker attendance(3, 2, 10);
  CHECK(attendance.missing() == std::vector<int>{0, 1, 2});
  CHECK_FALSE(attendance.add_connection(process(1)));
  CHECK_FALSE(attendance.add_connection(rank_of(2)));
  CHECK(attendance.missing() == std::vector<int>{0, 2});
  CHECK(attendance.host_of_process(1) == "n1");
  const Bytes said = beat(Phase::timing, 7, Phase::check, 9);
  MessageReader reader(said);
  attendance.record_heartbeat(1, reader);
  CHECK(attendance.progress(2).steps == 7);
  CHECK(attendance.progress(3).phase == Phase::check);
  CHECK(attendance.progress(3).operations == 3);
  CHECK(attendance.progress(3).operation_bytes == 4096);
  CHECK_FALSE(attendance.failure());
}

TEST_CASE("Attendance: who does not fit is told why, and the first one is remembered") {
  ProcessTracker attendance(3, 2, 10);
  CHECK_FALSE(attendance.add_connection(process(1)));
  const auto size = attendance.add_connection(process(2, 4));
  REQUIRE(size);
  check_names(size->message, {"process 2 on n2 was told of 4 processes, process 0 of 3"});
  REQUIRE(attendance.add_connection(process(1)));
  check_names(attendance.add_connection(process(1))->message, {"ranks 2 to 3 (process 1, pid 101 on n1) is here already"});
  REQUIRE(attendance.add_connection(process(3)));
  CHECK(attendance.first_refusal()->message == size->message);
  ClientInfo long_name = process(7, 9);
  long_name.host = std::string(1000, 'h') + "\n";
  CHECK(attendance.add_connection(long_name)->message.size() < 400);
}

TEST_CASE("Attendance: silence is counted from the last beat; the first reason stands") {
  ProcessTracker attendance(2, 2, 3);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(attendance.add_connection(process(i, 2)));
  const Bytes said = beat(Phase::warmup, 5, Phase::initialisation, 4);
  for (int tick = 0; tick < 3; ++tick) {
    CHECK_FALSE(attendance.tick());
    MessageReader reader(said);
    attendance.record_heartbeat(1, reader);
  }
  CHECK(attendance.tick());
  REQUIRE(attendance.failure());
  CHECK(attendance.failure()->exit == ExitCode::rank_lost);
  check_names(attendance.failure()->message, {"ranks 0 to 1 (process 0, pid 100 on n0) was lost", "0.3 s"});
  CHECK(attendance.connection_closed(1, true));
  check_names(attendance.failure()->message, {"process 0"});
  CHECK_FALSE(attendance.fail({ExitCode::interrupted, "late"}));
  CHECK(attendance.wait_until_all_left(0));
}

TEST_CASE("Attendance: who has left is not lost, nor is one whose spare connection ends") {
  ProcessTracker attendance(1, 2, 3);
  CHECK_FALSE(attendance.add_connection(process(0, 1)));
  ClientInfo rank = process(0, 1);
  rank.is_process = false;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(attendance.add_connection(rank));
  CHECK_FALSE(attendance.connection_closed(0, false));
  CHECK_FALSE(attendance.wait_until_all_left(0));
  attendance.mark_left(0);
  CHECK(attendance.wait_until_all_left(0));
  CHECK_FALSE(attendance.connection_closed(0, false));
  CHECK_FALSE(attendance.connection_closed(0, true));
  CHECK_FALSE(attendance.failure());
}

TEST_CASE("Attendance: where it matters, those that have not come yet are waited for, too") {
  ProcessTracker attendance(2, 2, 3);
  CHECK_FALSE(attendance.add_connection(process(0, 2)));
  attendance.mark_left(0);
  CHECK(attendance.wait_until_all_left(0));
  CHECK_FALSE(attendance.wait_until_all_left(0, true));
  CHECK_FALSE(attendance.add_connection(process(1, 2)));
  attendance.mark_left(1);
  CHECK(attendance.wait_until_all_left(0, true));
}

TEST_CASE("Attendance: one that is refused has heard why, and is waited for no more") {
  ProcessTracker attendance(2, 2, 3);
  CHECK_FALSE(attendance.add_connection(process(0, 2)));
  attendance.mark_left(0);
  CHECK(attendance.add_connection(process(1, 3)));
  CHECK(attendance.missing() == std::vector<int>{1});
  CHECK(attendance.wait_until_all_left(0, true));
}

TEST_CASE("Attendance: of another token the first word on a missing process counts, and no other") {
  ProcessTracker attendance(3, 2, 3);
  CHECK_FALSE(attendance.add_connection(process(0)));
  ClientInfo liar = process(1);
  for (const int number : {-1, 3, 0}) {
    liar.process = number;
    CHECK(attendance.report_token_mismatch(liar));
  }
  CHECK(attendance.other_token().empty());
  CHECK(attendance.report_token_mismatch(process(1)));
  liar.process = 1;
  liar.host = "elsewhere";
  CHECK_FALSE(attendance.report_token_mismatch(liar));
  check_names(attendance.other_token(), {"process 1 on n1 has another token"});
  CHECK_FALSE(attendance.add_connection(process(1)));
  CHECK(attendance.other_token().empty());
}

TEST_CASE("Attendance: nonsense is broken") {
  ProcessTracker attendance(1, 2, 3);
  const Bytes short_beat = beat(Phase::timing, 1, Phase::timing, 1);
  MessageReader shortened(std::span<const std::byte>(short_beat).first(10));
  CHECK_THROWS_AS(attendance.record_heartbeat(0, shortened), BrokenMessage);
  const Bytes no_phase = MessageWriter().add(std::uint32_t{0}).add(std::uint8_t{99}).bytes();
  MessageReader strange(no_phase);
  CHECK_THROWS_AS(attendance.record_phase(0, strange), BrokenMessage);
  const Bytes no_rank = MessageWriter().add(std::uint32_t{2}).add(std::uint8_t{0}).bytes();
  MessageReader unknown(no_rank);
  CHECK_THROWS_AS(attendance.record_phase(0, unknown), BrokenMessage);
}
