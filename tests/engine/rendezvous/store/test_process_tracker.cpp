#include "rendezvous/store/process_tracker.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "support_errors.hpp"

using namespace busbw;

// Tests with connections are in test_tcp_store_server.cpp.

namespace {

ClientInfo process(int number, int processes = 3) {
  return {true, number, processes, 2, 100 + number, "n" + std::to_string(number)};
}
ClientInfo rank_of(int number) {
  ClientInfo greeting = process(number);
  greeting.is_control = false;
  return greeting;
}

/// Heartbeat of two ranks that have issued 3 operations each.
Bytes heartbeat(Phase first, std::uint64_t first_steps, Phase second, std::uint64_t second_steps) {
  MessageWriter writer;
  for (const auto& [phase, steps] : {std::pair(first, first_steps), std::pair(second, second_steps)})
    writer.add(static_cast<std::uint8_t>(phase)).add(steps).add(std::uint64_t{3}).add(std::uint64_t{4096});
  return writer.bytes();
}

}  // namespace

TEST_CASE("ProcessTracker: joined processes and their progress") {
  ProcessTracker tracker(3, 2, 10);
  CHECK(tracker.missing_processes() == std::vector<int>{0, 1, 2});
  CHECK_FALSE(tracker.add_connection(process(1)));
  CHECK_FALSE(tracker.add_connection(rank_of(2)));
  CHECK(tracker.missing_processes() == std::vector<int>{0, 2});
  CHECK(tracker.host_of_process(1) == "n1");
  const Bytes bytes = heartbeat(Phase::timing, 7, Phase::check, 9);
  MessageReader reader(bytes);
  tracker.record_heartbeat(1, reader);
  CHECK(tracker.progress(2).steps == 7);
  CHECK(tracker.progress(3).phase == Phase::check);
  CHECK(tracker.progress(3).operations == 3);
  CHECK(tracker.progress(3).operation_bytes == 4096);
  CHECK_FALSE(tracker.failure());
}

TEST_CASE("ProcessTracker: refuses processes that do not fit, and keeps the first refusal") {
  ProcessTracker tracker(3, 2, 10);
  CHECK_FALSE(tracker.add_connection(process(1)));
  const auto size = tracker.add_connection(process(2, 4));
  REQUIRE(size);
  check_names(size->message, {"process 2 on n2 expects 4 processes, process 0 expects 3"});
  REQUIRE(tracker.add_connection(process(1)));
  check_names(tracker.add_connection(process(1))->message,
              {"ranks 2 to 3 (process 1, pid 101 on n1) has already joined"});
  REQUIRE(tracker.add_connection(process(3)));
  CHECK(tracker.first_refusal()->message == size->message);
  ClientInfo long_name = process(7, 9);
  long_name.host = std::string(1000, 'h') + "\n";
  CHECK(tracker.add_connection(long_name)->message.size() < 400);
}

TEST_CASE("ProcessTracker: a joined process without heartbeats is silent before it is lost") {
  ProcessTracker tracker(3, 2, 100);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(tracker.add_connection(process(i, 3)));
  for (int tick = 0; tick < 20; ++tick) CHECK_FALSE(tracker.count_silent_tick());
  CHECK(tracker.silent_processes(20).empty());
  const Bytes bytes = heartbeat(Phase::timing, 5, Phase::timing, 5);
  MessageReader reader(bytes);
  tracker.record_heartbeat(1, reader);
  tracker.count_silent_tick();
  CHECK(tracker.silent_processes(20) == std::vector<int>{0});
  CHECK_FALSE(tracker.failure());
}

TEST_CASE("ProcessTracker: a tolerated loss is no failure, except that of process 0") {
  ProcessTracker tracker(3, 2, 3);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(tracker.add_connection(process(i)));
  tracker.tolerate_losses(true);
  CHECK(tracker.record_closed_connection(2, true));
  CHECK_FALSE(tracker.failure());
  const auto lost = tracker.lost_processes();
  REQUIRE(lost.size() == 1);
  CHECK(lost.at(2).host == "n2");
  check_names(lost.at(2).reason, {"ranks 4 to 5 (process 2, pid 102 on n2) was lost", "connection closed"});
  CHECK(tracker.record_closed_connection(0, true));
  REQUIRE(tracker.failure());
  check_names(tracker.failure()->message, {"ranks 0 to 1 (process 0"});
}

TEST_CASE("ProcessTracker: hanging processes are lost if the job tolerates it, except process 0") {
  ProcessTracker tracker(3, 2, 3);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(tracker.add_connection(process(i)));
  CHECK_FALSE(tracker.lose_processes({1}, "hangs"));
  tracker.tolerate_losses(true);
  CHECK_FALSE(tracker.lose_processes({}, "hangs"));
  CHECK_FALSE(tracker.lose_processes({0, 1}, "hangs"));
  CHECK(tracker.lost_processes().empty());
  CHECK(tracker.lose_processes({1}, "hangs"));
  CHECK_FALSE(tracker.failure());
  CHECK(tracker.lost_processes().at(1).reason == "ranks 2 to 3 (process 1, pid 101 on n1) hangs");
  tracker.mark_left(2);
  CHECK_FALSE(tracker.lose_processes({2}, "hangs"));  // nobody waits for a process that has left
}

TEST_CASE("ProcessTracker: missing processes are lost on the hosts without a joined process") {
  const auto losses = [](const std::vector<std::string>& hosts,
                         const std::map<int, std::string>& joined = {{0, "n0"}, {1, "n0"}}) {
    ProcessTracker tracker(6, 2, 3);
    tracker.tolerate_losses(true);
    for (const auto& [number, host] : joined) {
      ClientInfo client = process(number, 6);
      client.host = host;
      CHECK_FALSE(tracker.add_connection(client));
    }
    tracker.lose_missing_processes(hosts, "did not join");
    CHECK_FALSE(tracker.failure());
    CHECK(tracker.missing_processes().empty());
    return tracker.lost_processes();
  };
  const auto lost = losses({"n0", "n1", "n2"});
  REQUIRE(lost.size() == 4);
  CHECK(lost.at(3).host == "n1");
  CHECK(lost.at(4).host == "n2");
  CHECK(lost.at(4).reason == "ranks 8 to 9 (process 4 on n2) did not join");
  CHECK(losses({"n0.cluster.example", "n1.cluster.example", "n2.cluster.example"}).at(2).host == "n1");
  // The processes may be distributed cyclically.
  CHECK(losses({"n0", "n1"}, {{0, "n0"}, {2, "n0"}, {4, "n0"}}).at(3).host == "n1");

  const auto expect_unknown = [](const std::map<int, Loss>& lost_processes) {
    for (const auto& [number, loss] : lost_processes)
      CHECK(loss.host == "unknown (process " + std::to_string(number) + ")");
  };
  expect_unknown(losses({}));
  expect_unknown(losses({"n0", "n1", "n2", "n3"}));
  expect_unknown(losses({"10.0.0.1", "10.0.0.2", "10.0.0.3"}));
  expect_unknown(losses({"n0", "alias", "n2"}, {{0, "n0"}, {1, "n0"}, {2, "n1"}, {3, "n1"}}));
  expect_unknown(losses({"n0", "n1"}));  // the first host has started in part
  expect_unknown(losses({"n0", "n1", "n1.other"}));
  expect_unknown(losses({"n0", "n1", "n2"}, {{0, "n0"}, {3, "n0"}}));
}

TEST_CASE("ProcessTracker: a process that withdraws is lost with its reason, and may not return") {
  ProcessTracker tracker(3, 2, 3);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(tracker.add_connection(process(i)));
  tracker.tolerate_losses(true);
  tracker.mark_withdrawn(1, "cannot start: GPU 0 does not answer");
  CHECK_FALSE(tracker.record_closed_connection(1, true));
  CHECK_FALSE(tracker.failure());
  CHECK(tracker.lost_processes().at(1).reason ==
        "ranks 2 to 3 (process 1, pid 101 on n1) cannot start: GPU 0 does not answer");
  const auto refusal = tracker.add_connection(process(1));
  REQUIRE(refusal);
  check_names(refusal->message, {"ranks 2 to 3 (process 1, pid 101 on n1) was lost, and the job continues without it"});
  CHECK_FALSE(tracker.first_refusal());
}

TEST_CASE("ProcessTracker: a process that joins after the limit is told so, and the job continues") {
  ProcessTracker tracker(3, 2, 3);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(tracker.add_connection(process(i)));
  tracker.tolerate_losses(true);
  tracker.lose_missing_processes({}, "did not join");
  const auto refusal = tracker.add_connection(process(2));
  REQUIRE(refusal);
  CHECK(refusal->exit == ExitCode::rank_lost);
  check_names(refusal->message, {"process 2 on n2 joined after the time limit, and the job continues without it"});
  CHECK_FALSE(tracker.first_refusal());
  CHECK_FALSE(tracker.failure());
}

TEST_CASE("ProcessTracker: counts silence from the last heartbeat; keeps the first failure") {
  ProcessTracker tracker(2, 2, 3);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(tracker.add_connection(process(i, 2)));
  const Bytes bytes = heartbeat(Phase::warmup, 5, Phase::initialisation, 4);
  for (int tick = 0; tick < 3; ++tick) {
    CHECK_FALSE(tracker.count_silent_tick());
    MessageReader reader(bytes);
    tracker.record_heartbeat(1, reader);
  }
  CHECK(tracker.count_silent_tick());
  REQUIRE(tracker.failure());
  CHECK(tracker.failure()->exit == ExitCode::rank_lost);
  check_names(tracker.failure()->message, {"ranks 0 to 1 (process 0, pid 100 on n0) was lost", "0.3 s"});
  CHECK(tracker.record_closed_connection(1, true));
  check_names(tracker.failure()->message, {"process 0"});
  CHECK_FALSE(tracker.record_failure({ExitCode::interrupted, "late"}));
  CHECK(tracker.wait_until_all_left(0));
}

TEST_CASE("ProcessTracker: no loss after leaving or when a surplus connection closes") {
  ProcessTracker tracker(1, 2, 3);
  CHECK_FALSE(tracker.add_connection(process(0, 1)));
  ClientInfo rank = process(0, 1);
  rank.is_control = false;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(tracker.add_connection(rank));
  CHECK_FALSE(tracker.record_closed_connection(0, false));
  CHECK_FALSE(tracker.wait_until_all_left(0));
  tracker.mark_left(0);
  CHECK(tracker.wait_until_all_left(0));
  CHECK_FALSE(tracker.record_closed_connection(0, false));
  CHECK_FALSE(tracker.record_closed_connection(0, true));
  CHECK_FALSE(tracker.failure());
}

TEST_CASE("ProcessTracker: also_missing waits for processes that have not joined") {
  ProcessTracker tracker(2, 2, 3);
  CHECK_FALSE(tracker.add_connection(process(0, 2)));
  tracker.mark_left(0);
  CHECK(tracker.wait_until_all_left(0));
  CHECK_FALSE(tracker.wait_until_all_left(0, true));
  CHECK_FALSE(tracker.add_connection(process(1, 2)));
  tracker.mark_left(1);
  CHECK(tracker.wait_until_all_left(0, true));
}

TEST_CASE("ProcessTracker: does not wait for refused processes") {
  ProcessTracker tracker(2, 2, 3);
  CHECK_FALSE(tracker.add_connection(process(0, 2)));
  tracker.mark_left(0);
  CHECK(tracker.add_connection(process(1, 3)));
  CHECK(tracker.missing_processes() == std::vector<int>{1});
  CHECK(tracker.wait_until_all_left(0, true));
}

TEST_CASE("ProcessTracker: reports a token mismatch once, and only for a missing process") {
  ProcessTracker tracker(3, 2, 3);
  CHECK_FALSE(tracker.add_connection(process(0)));
  ClientInfo impostor = process(1);
  for (const int number : {-1, 3, 0}) {
    impostor.process = number;
    CHECK(tracker.report_token_mismatch(impostor));
  }
  CHECK(tracker.token_mismatch_message().empty());
  CHECK(tracker.report_token_mismatch(process(1)));
  impostor.process = 1;
  impostor.host = "elsewhere";
  CHECK_FALSE(tracker.report_token_mismatch(impostor));
  check_names(tracker.token_mismatch_message(), {"process 1 on n1 has another token"});
  CHECK_FALSE(tracker.add_connection(process(1)));
  CHECK(tracker.token_mismatch_message().empty());
}

TEST_CASE("ProcessTracker: rejects invalid messages") {
  ProcessTracker tracker(1, 2, 3);
  const Bytes short_heartbeat = heartbeat(Phase::timing, 1, Phase::timing, 1);
  MessageReader truncated(std::span<const std::byte>(short_heartbeat).first(10));
  CHECK_THROWS_AS(tracker.record_heartbeat(0, truncated), BrokenMessage);
  const Bytes no_phase = MessageWriter().add(std::uint32_t{0}).add(std::uint8_t{99}).bytes();
  MessageReader invalid_phase(no_phase);
  CHECK_THROWS_AS(tracker.record_phase(0, invalid_phase), BrokenMessage);
  const Bytes no_rank = MessageWriter().add(std::uint32_t{2}).add(std::uint8_t{0}).bytes();
  MessageReader unknown(no_rank);
  CHECK_THROWS_AS(tracker.record_phase(0, unknown), BrokenMessage);
}
