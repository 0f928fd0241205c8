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

constexpr std::size_t kMailbox = 16384;  // messages beyond this go in parts
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

/// Gathers and broadcasts of every length in turn, without barriers between; what was wrong.
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

/// Splits by rank modulo `colours`, and what members see of their group.
std::string split_and_exchange(Team& world, int colours) {
  const int colour = world.rank() % colours;
  const auto group = world.split(-colour);  // colours need not be positive
  if (group->rank() != world.rank() / colours) return "wrong rank in the group; ";
  if (group->size() != (world.size() - colour + colours - 1) / colours) return "wrong size of the group; ";
  const int mine = world.rank();
  const auto members = group->gather(std::as_bytes(std::span(&mine, 1)));
  for (std::size_t i = 0; i < members.size(); ++i) {
    int member = -1;
    std::memcpy(&member, members[i].data(), sizeof member);
    if (member != colour + static_cast<int>(i) * colours) return "wrong member; ";
  }
  for (int i = 0; i < 10 * (colour + 1); ++i) group->barrier();  // groups need not keep step
  return exchange_messages(*group);
}

/// A job whose ranks all wait in `call`, but rank 0, which aborts it: how each ended.
std::vector<std::string> abort_while_others(const std::function<void(Team&)>& call) {
  LocalJob job(4);
  return run_as_threads(job, [&](Team& world) {
    if (world.rank() != 0) return call(world);
    job.abort(ExitCode::interrupted, "stop");
  });
}

}  // namespace

TEST_CASE("LocalJob: nobody passes a barrier before all have come, as threads") {
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

TEST_CASE("LocalJob: nobody passes a barrier before all have come, as processes of threads") {
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

TEST_CASE("LocalJob: messages of any length, empty, unequal and long ones, arrive whole") {
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

TEST_CASE("LocalJob: groups are ordered by rank, have messages and barriers of their own, and the world goes on") {
  for (const int colours : {1, 2, 3, 7}) {
    LocalJob job(7);
    std::vector<std::string> complaints(7);
    const auto ends = run_as_threads(job, [&](Team& world) {
      auto& complaint = complaints[static_cast<std::size_t>(world.rank())];
      complaint = split_and_exchange(world, colours);
      world.barrier();
      complaint += exchange_messages(world);
    });
    CHECK(ends == std::vector<std::string>(7));
    CHECK(complaints == std::vector<std::string>(7));
  }
  CHECK(run_processes(4, kThreadsBesideProcesses, [](Team& world) { return split_and_exchange(world, 2); }) == "");
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
    // The other group waits for nobody in this one: it goes on until it sees the abort.
    while (world.rank() != 0) group->barrier();
    CHECK(group->aborted());
  });
  CHECK(ends == std::vector<std::string>{"", "aborted", "aborted", "aborted"});
}

TEST_CASE("LocalJob: what all have come to is not lost by an abort behind it") {
  // So many that some still have to wake when the first goes on.
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

TEST_CASE("LocalJob: after an abort no wait begins") {
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

TEST_CASE("LocalJob: the first reason stands") {
  LocalJob job(2);
  job.abort(ExitCode::wrong_data, "first");
  job.abort(ExitCode::interrupted, "second");
  REQUIRE(job.failure());
  CHECK(job.failure()->exit == ExitCode::wrong_data);
  CHECK(job.failure()->message == "first");
}

TEST_CASE("LocalJob: many who abort at once leave one whole reason") {
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

TEST_CASE("LocalJob: an abort in one process reaches the others, with its reason") {
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

TEST_CASE("LocalJob: a reason too long to keep is cut") {
  LocalJob job(1);
  job.abort(ExitCode::environment, std::string(100'000, 'x'));
  const std::string kept = job.failure()->message;
  CHECK(kept.size() >= 1000);
  CHECK(kept.size() < 100'000);
  CHECK(kept.find_first_not_of('x') == std::string::npos);
}

TEST_CASE("LocalJob: progress shows the phase, and steps that grow with every phase and barrier") {
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

TEST_CASE("LocalJob: progress shows how many operations were issued, and the last one's size") {
  LocalJob job(2);
  const auto team = job.team(1);
  team->issued().next(1024);
  team->issued().next(8);
  CHECK(job.progress(1).operations == 2);
  CHECK(job.progress(1).operation_bytes == 8);
  CHECK(job.progress(0).operations == 0);
}
