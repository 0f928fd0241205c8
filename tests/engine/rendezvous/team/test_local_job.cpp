#include "rendezvous/team/local_job.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "support_job.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kMailbox = 16384;  // longer messages are split
constexpr std::array<std::size_t, 8> kLengths{
    0, 1, 100, kMailbox - 1, kMailbox, kMailbox + 1, 2 * kMailbox, 3 * kMailbox + 7};

Bytes message(int from, std::size_t length) {
  Bytes bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(from) * 31);
  return bytes;
}

std::size_t length_of(int rank, std::size_t round) {
  return kLengths[(static_cast<std::size_t>(rank) + round) % kLengths.size()];
}

/// Gathers and broadcasts messages of many lengths without barriers between them. Returns the errors.
std::string exchange_messages(Team& team) {
  for (std::size_t round = 0; round < 2 * kLengths.size(); ++round) {
    const auto all = team.gather(message(team.rank(), length_of(team.rank(), round)));
    if (team.rank() != 0 && !all.empty()) return "gather gives something to others than the first; ";
    if (team.rank() == 0 && all.size() != static_cast<std::size_t>(team.size())) return "gather gives too little; ";
    for (int from = 0; from < static_cast<int>(all.size()); ++from)
      if (all[static_cast<std::size_t>(from)] != message(from, length_of(from, round)))
        return "gather gives wrong bytes; ";
    const auto sent = message(1000, length_of(0, round));
    const auto got = team.broadcast(team.rank() == 0 ? sent : message(team.rank(), 5));
    if (got != sent) return "broadcast gives wrong bytes; ";
  }
  return {};
}

/// Splits by rank modulo `color_count`. Returns the errors in the groups.
std::string split_and_exchange(Team& world, int color_count) {
  const int color = world.rank() % color_count;
  const auto group = world.split(-color);  // colors may be negative
  if (group->rank() != world.rank() / color_count) return "wrong rank in the group; ";
  if (group->size() != (world.size() - color + color_count - 1) / color_count) return "wrong size of the group; ";
  const int own_rank = world.rank();
  const auto members = group->gather(std::as_bytes(std::span(&own_rank, 1)));
  for (std::size_t i = 0; i < members.size(); ++i) {
    int member = -1;
    std::memcpy(&member, members[i].data(), sizeof member);
    if (member != color + static_cast<int>(i) * color_count) return "wrong member; ";
  }
  for (int i = 0; i < 10 * (color + 1); ++i) group->barrier();  // groups are independent
  return exchange_messages(*group);
}

/// Runs `call` on all ranks except rank 0, which aborts the job. Returns how each rank ended.
std::vector<std::string> abort_while_others(const std::function<void(Team&)>& call) {
  LocalJob job(4);
  return run_as_threads(job, [&](Team& world) {
    if (world.rank() != 0) return call(world);
    job.abort(ExitCode::interrupted, "stop");
  });
}

}  // namespace

TEST_CASE("LocalJob: no rank passes a barrier before all have arrived, with threads") {
  for (const int ranks : {1, 2, 3, 16}) {
    LocalJob job(ranks);
    std::vector<std::atomic<int>> rounds(static_cast<std::size_t>(ranks));
    const auto ends = run_as_threads(job, [&](Team& world) {
      for (int round = 1; round <= 200; ++round) {
        rounds[static_cast<std::size_t>(world.rank())] = round;
        world.barrier();
        for (const auto& other : rounds)
          if (other != round) throw std::runtime_error("passed too early");
        world.barrier();
      }
    });
    CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  }
}

TEST_CASE("LocalJob: no rank passes a barrier before all have arrived, with processes and threads") {
  const Shared<std::array<std::atomic<int>, 3 * kThreadsBesideProcesses>> rounds;
  CHECK(run_processes(3, kThreadsBesideProcesses, [&](Team& world) -> std::string {
          for (int round = 1; round <= 200; ++round) {
            (*rounds)[static_cast<std::size_t>(world.rank())] = round;
            world.barrier();
            for (const auto& other : *rounds)
              if (other != round) return "passed too early; ";
            world.barrier();
          }
          return {};
        }) == "");
}

TEST_CASE("LocalJob: teams know their ranks") {
  LocalJob job(3);
  CHECK(job.ranks() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(job.team(rank)->rank() == rank);
    CHECK(job.team(rank)->size() == 3);
  }
}

TEST_CASE("LocalJob: transfers messages of any length") {
  for (const int ranks : {1, 2, 5}) {
    LocalJob job(ranks);
    std::vector<std::string> complaints(static_cast<std::size_t>(ranks));
    const auto ends = run_as_threads(
        job, [&](Team& world) { complaints[static_cast<std::size_t>(world.rank())] = exchange_messages(world); });
    CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    CHECK(complaints == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  }
  CHECK(run_processes(2, kThreadsBesideProcesses, exchange_messages) == "");
}

TEST_CASE("LocalJob: groups are ordered by rank, with separate messages and barriers") {
  for (const int color_count : {1, 2, 3, 7}) {
    LocalJob job(7);
    std::vector<std::string> complaints(7);
    const auto ends = run_as_threads(job, [&](Team& world) {
      auto& complaint = complaints[static_cast<std::size_t>(world.rank())];
      complaint = split_and_exchange(world, color_count);
      world.barrier();
      complaint += exchange_messages(world);
    });
    CHECK(ends == std::vector<std::string>(7));
    CHECK(complaints == std::vector<std::string>(7));
  }
  CHECK(run_processes(4, kThreadsBesideProcesses, [](Team& world) { return split_and_exchange(world, 2); }) == "");
}

TEST_CASE("LocalJob: a team and its split have separate barriers, also if they have the same first rank") {
  CHECK(run_processes(1, 4, [](Team& world) {
          const auto team = world.split(0);
          const auto half = team->split(team->rank() / 2);
          // Ranks 2 and 3 wait for the team while ranks 0 and 1 exchange messages in their half.
          for (int round = 0; round < 100 && half->rank() + 2 > team->rank(); ++round) half->barrier();
          team->barrier();
          return exchange_messages(*half) + exchange_messages(*team);
        }) == "");
}

TEST_CASE("LocalJob: an abort ends every kind of wait") {
  const std::vector<std::string> all_aborted{"", "aborted", "aborted", "aborted"};
  CHECK(abort_while_others([](Team& world) { world.barrier(); }) == all_aborted);
  CHECK(abort_while_others([](Team& world) { world.gather({}); }) == all_aborted);
  CHECK(abort_while_others([](Team& world) { world.broadcast({}); }) == all_aborted);
  CHECK(abort_while_others([](Team& world) { world.split(0); }) == all_aborted);
}

TEST_CASE("LocalJob: an abort ends the waits of groups too") {
  LocalJob job(4);
  const auto ends = run_as_threads(job, [&](Team& world) {
    const auto group = world.split(world.rank() % 2);
    if (world.rank() == 0) job.abort(ExitCode::interrupted, "stop");
    // The other group does not wait for this one, and continues until it detects the abort.
    while (world.rank() != 0) group->barrier();
    CHECK(group->aborted());
  });
  CHECK(ends == std::vector<std::string>{"", "aborted", "aborted", "aborted"});
}

TEST_CASE("LocalJob: a complete barrier passes despite a later abort") {
  // Many ranks, so that some are still waking when the first one continues.
  constexpr int kRanks = 16;
  const std::vector<std::string> all_well(kRanks);
  for (int round = 0; round < 20; ++round) {
    LocalJob at_barrier(kRanks);
    CHECK(run_as_threads(at_barrier, [&](Team& world) {
            world.barrier();
            at_barrier.abort(ExitCode::rank_lost, "gone");
          }) == all_well);
    LocalJob at_gather(kRanks);
    std::vector<Bytes> gathered;
    CHECK(run_as_threads(at_gather, [&](Team& world) {
            auto all = world.gather(message(world.rank(), 100));
            at_gather.abort(ExitCode::rank_lost, "gone");
            if (world.rank() == 0) gathered = std::move(all);
          }) == all_well);
    REQUIRE(gathered.size() == kRanks);
    for (int from = 0; from < kRanks; ++from) CHECK(gathered[static_cast<std::size_t>(from)] == message(from, 100));
  }
}

TEST_CASE("LocalJob: no wait starts after an abort") {
  LocalJob job(1);
  const auto team = job.team(0);
  team->barrier();
  CHECK_FALSE(team->aborted());
  CHECK_FALSE(job.failure());
  job.abort(ExitCode::rank_lost, "gone");
  CHECK(team->aborted());
  CHECK_THROWS_AS(team->barrier(), JobAborted);
  CHECK_THROWS_AS(team->gather({}), JobAborted);
}

TEST_CASE("LocalJob: keeps the first failure") {
  LocalJob job(2);
  job.abort(ExitCode::wrong_data, "first");
  job.abort(ExitCode::interrupted, "second");
  REQUIRE(job.failure());
  CHECK(job.failure()->exit == ExitCode::wrong_data);
  CHECK(job.failure()->message == "first");
}

TEST_CASE("LocalJob: concurrent aborts leave one complete failure") {
  for (int round = 0; round < 50; ++round) {
    LocalJob job(8);
    run_as_threads(job, [&](Team& world) {
      job.abort(ExitCode::environment, std::string(1000, static_cast<char>('a' + world.rank())));
    });
    REQUIRE(job.failure());
    const std::string message = job.failure()->message;
    REQUIRE(message == std::string(1000, message[0]));
  }
}

TEST_CASE("LocalJob: an abort in one process reaches the others with its failure") {
  LocalJob job(2);
  ChildProcess child([&] {
    job.abort(ExitCode::rank_lost, "a process gave up");
    return std::string();
  });
  CHECK(run_as_threads(job, [&](Team& world) {
          if (world.rank() == 0) world.barrier();
        })[0] == "aborted");
  CHECK(child.said() == "");
  CHECK(job.failure()->message == "a process gave up");
  CHECK(job.failure()->exit == ExitCode::rank_lost);
}

TEST_CASE("LocalJob: truncates a failure message that is too long") {
  LocalJob job(1);
  job.abort(ExitCode::environment, std::string(100'000, 'x'));
  const std::string kept = job.failure()->message;
  CHECK(kept.size() >= 1000);
  CHECK(kept.size() < 100'000);
  CHECK(kept.find_first_not_of('x') == std::string::npos);
}

TEST_CASE("LocalJob: progress has the phase, and a step for every phase and barrier") {
  LocalJob job(2);
  CHECK(job.progress(0).phase == Phase::rendezvous);
  CHECK(job.progress(0).steps == 0);
  const auto team = job.team(1);
  team->enter(Phase::timing);
  CHECK(job.progress(1).phase == Phase::timing);
  const auto before = job.progress(1).steps;
  team->enter(Phase::timing);
  CHECK(job.progress(1).steps == before + 1);
  CHECK(job.progress(0).steps == 0);
  run_as_threads(job, [](Team& world) { world.barrier(); });
  CHECK(job.progress(0).steps == 1);
  CHECK(job.progress(1).steps == before + 2);
}

TEST_CASE("LocalJob: progress has the number of issued operations and the last size") {
  LocalJob job(2);
  const auto team = job.team(1);
  team->issued().next(1024);
  team->issued().next(8);
  CHECK(job.progress(1).operations == 2);
  CHECK(job.progress(1).operation_bytes == 8);
  CHECK(job.progress(0).operations == 0);
}
