#include "rendezvous/store_team.hpp"

#include <doctest/doctest.h>

#include "support_stores.hpp"
#include "support_team.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

Bytes store_message(int from, std::size_t length) {
  // A repeated block of prime length: fast to create, and swapped parts are detected.
  Bytes block(1021);
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<std::size_t>(from) * 31);
  Bytes bytes;
  bytes.reserve(length + block.size());
  while (bytes.size() < length) bytes.insert(bytes.end(), block.begin(), block.end());
  bytes.resize(length);
  return bytes;
}

/// Keeps transcripts short.
std::string digest(const Bytes& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::to_string(bytes.size()) + ":" + std::to_string(std::hash<std::string_view>()(text)) + " ";
}

/// Runs many gathers, broadcasts and splits. Returns a text of all results that this member receives.
std::string transcript(Team& team, int depth = 0) {
  std::string text = std::to_string(team.rank()) + " of " + std::to_string(team.size()) + " ";
  const auto rank = static_cast<std::size_t>(team.rank());
  const std::vector<std::vector<std::size_t>> sizes{
      {0, 0, 0, 0, 0}, {1, 0, 100, 5, 7}, {10, 3 * kMiB + 1, 0, kMiB, 17}, {kMiB - 64, kMiB - 65, kMiB, 2 * kMiB, 1}};
  for (const auto& round : sizes) {
    if (depth > 0 && &round >= &sizes[2]) continue;  // long messages only in the team of all members
    for (const Bytes& one : team.gather(store_message(team.rank(), round[rank % round.size()]))) text += digest(one);
    team.barrier();
  }
  const std::vector<std::size_t> lengths{0, 1, 1000, kMiB - 64, kMiB - 63, 2 * kMiB + 5};
  for (const std::size_t size : std::span(lengths).first(depth == 0 ? 6 : 3))
    text += digest(team.broadcast(team.rank() == 0 ? store_message(9, size) : store_message(team.rank(), 3)));
  if (depth >= 3) return text;
  for (const int colors : {1, 2}) {
    const auto group = team.split(-(team.rank() % colors));
    text += "[" + transcript(*group, depth + (colors == 1 ? 3 : 1)) + "]";
  }
  team.barrier();
  return text;
}

std::vector<int> first_numbers(int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

std::vector<std::string> transcripts(int members, const std::function<std::unique_ptr<Team>(int member)>& team) {
  std::vector<std::string> all(static_cast<std::size_t>(members));
  const auto ends = run_members(members, [&](int member) {
    const auto own_team = team(member);
    all[static_cast<std::size_t>(member)] = transcript(*own_team);
  });
  CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(members)));
  return all;
}

}  // namespace

TEST_CASE("StoreTeam: same results as a local team, over a store") {
  for (const int members : {1, 2, 5}) {
    CAPTURE(members);
    auto plain = ThreadTeam::make(members);
    const auto expected =
        transcripts(members, [&](int member) { return std::move(plain[static_cast<std::size_t>(member)]); });
    TcpStores stores(members, kSafetyLimitS);
    std::vector<LocalRank> states(static_cast<std::size_t>(members));
    CHECK(transcripts(members, [&](int member) {
            return std::make_unique<StoreTeam>(stores.of(member), states[static_cast<std::size_t>(member)],
                                               first_numbers(members), member, "all");
          }) == expected);
  }
}

TEST_CASE("StoreTeam: reports steps and phases") {
  TcpStores stores(1, kSafetyLimitS);
  LocalRank state;
  StoreTeam team(stores.of(0), state, {0}, 0, "all");
  team.enter(Phase::warmup);
  CHECK(state.phase == Phase::warmup);
  team.barrier();
  team.gather({});
  team.broadcast({});
  CHECK(state.steps == 4);
}

TEST_CASE("StoreTeam: a gather and a broadcast leave nothing in the store") {
  // A remaining key would be refused when another team of the same name sets it again.
  TcpStores stores(3, kSafetyLimitS);
  for (int round = 0; round < 2; ++round)
    CHECK(run_members(3, [&](int member) {
            LocalRank state;
            StoreTeam team(stores.of(member), state, first_numbers(3), member, "all");
            team.gather(store_message(member, 2 * kMiB));
            team.broadcast(store_message(0, 2 * kMiB));
            team.barrier();
          }) == std::vector<std::string>(3));
}

TEST_CASE("StoreTeam: a timeout names the missing members and the group's barrier") {
  TcpStores stores(3, 0.15);
  LocalRank state;
  StoreTeam team(stores.of(1), state, {4, 6, 8}, 1, "group 2 of split 1 of the job");
  try {
    team.barrier();
    FAIL_CHECK("it did not wait");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("barrier 1 of group 2 of split 1 of the job for members 0 and 2") !=
          std::string::npos);
  }
}

TEST_CASE("StoreTeam: an abort ends every kind of wait") {
  const std::vector<std::function<void(Team&)>> waits{
      [](Team& team) { team.barrier(); }, [](Team& team) { team.gather(store_message(0, 3 * kMiB)); },
      [](Team& team) { team.broadcast(store_message(0, 3 * kMiB)); }, [](Team& team) { team.split(0); }};
  for (const auto& wait : waits) {
    TcpStores stores(3, kSafetyLimitS);
    const auto ends = run_members(3, [&](int member) {
      LocalRank state;
      StoreTeam team(stores.of(member), state, first_numbers(3), member, "all");
      if (member != 2) {
        stores.of(member).set("waits " + std::to_string(member), {});
        wait(team);
        team.barrier();
        return;
      }
      for (const char* waits : {"waits 0", "waits 1"}) stores.of(member).get(waits);
      stores.server().abort({ExitCode::interrupted, "stop"});
    });
    CHECK(ends == std::vector<std::string>{"aborted", "aborted", ""});
  }
}
