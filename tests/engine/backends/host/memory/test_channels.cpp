#include "backends/host/memory/channels.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backends/host/rank_buffers.hpp"
#include "support_ranks.hpp"
#include "support_reduction.hpp"

using namespace busbw;

namespace {

std::vector<int> identity(int ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) members[static_cast<std::size_t>(rank)] = rank;
  return members;
}

std::string complain(const Team& team, const std::string& text) {
  return "rank " + std::to_string(team.rank()) + ": " + text + "; ";
}

/// Every rank sends `bytes` bytes to every rank, itself included, out of place or in place.
std::string all_to_all(const Channels& channels, Team& team, std::size_t bytes, bool in_place) {
  const int ranks = team.size();
  const auto all = bytes * static_cast<std::size_t>(ranks);
  std::vector<std::byte> send = moved(team.rank(), 0, all);
  std::vector<std::byte> recv(all);
  std::vector<std::byte>& target = in_place ? send : recv;
  std::vector<Transfer> sends;
  std::vector<Transfer> recvs;
  for (int peer = 0; peer < ranks; ++peer) {
    sends.push_back({peer, send.data() + static_cast<std::size_t>(peer) * bytes, bytes});
    recvs.push_back({peer, target.data() + static_cast<std::size_t>(peer) * bytes, bytes});
  }
  exchange_chunks(channels, identity(ranks), team.rank(), sends, recvs, 1, team);
  for (int peer = 0; peer < ranks; ++peer) {
    const auto expected = moved(peer, static_cast<std::size_t>(team.rank()) * bytes, bytes);
    if (!std::equal(expected.begin(), expected.end(), recvs[static_cast<std::size_t>(peer)].data)) {
      return complain(team, "wrong data from " + std::to_string(peer) + ", " + std::to_string(bytes) + " bytes");
    }
  }
  return {};
}

}  // namespace

TEST_CASE("Channels: their memory stays modest and their chunks whole cache lines") {
  for (const int ranks : {1, 2, 4, 16, 64, 256, 1024}) {
    CHECK(Channels::chunk_bytes(ranks) % 64 == 0);
    CHECK(Channels::chunk_bytes(ranks) >= 256);
  }
  CHECK(Channels::chunk_bytes(4) == 64 << 10);
  CHECK(Channels::bytes(64) <= std::size_t{34} << 20);
}

TEST_CASE("exchange_chunks: every rank to every rank and itself, in and out of place, around the chunk size") {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    const RankBuffers memory(1, 0, RankBuffers::page_aligned(Channels::bytes(ranks)), Sharing::threads);
    const Channels channels(memory.front(), ranks);
    const std::size_t chunk = channels.chunk_bytes();
    const std::string complaints = run_threads(ranks, [&](Team& team) {
      std::string complaint;
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{777}, chunk, 3 * chunk + 5}) {
        complaint += all_to_all(channels, team, bytes, false);
        complaint += all_to_all(channels, team, bytes, true);
      }
      return complaint;
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("exchange_chunks: processes") {
  const RankBuffers memory(1, 0, RankBuffers::page_aligned(Channels::bytes(4)), Sharing::processes);
  const Channels channels(memory.front(), 4);
  const std::string complaints =
      run_processes(2, 2, [&](Team& team) { return all_to_all(channels, team, 3 * channels.chunk_bytes() + 5, true); });
  CHECK(complaints == "");
}

TEST_CASE("exchange_chunks: only the named ranks take part, and peers are the communicator's ranks") {
  const RankBuffers memory(1, 0, RankBuffers::page_aligned(Channels::bytes(5)), Sharing::threads);
  const Channels channels(memory.front(), 5);
  const std::string complaints = run_threads(5, [&](Team& team) -> std::string {
    // A communicator of the ranks 4 and 1, in this order; 4 sends, 1 receives, the others do nothing.
    const std::vector<int> members{4, 1};
    std::vector<std::byte> data = moved(9, 0, 100000);
    if (team.rank() == 4) {
      const Transfer send{1, data.data(), data.size()};
      exchange_chunks(channels, members, 0, {&send, 1}, {}, 1, team);
    }
    if (team.rank() == 1) {
      std::vector<std::byte> got(data.size());
      const Transfer recv{0, got.data(), got.size()};
      exchange_chunks(channels, members, 1, {}, {&recv, 1}, 1, team);
      if (got != data) return complain(team, "wrong data");
    }
    return {};
  });
  CHECK(complaints == "");
}

TEST_CASE("exchange_chunks: an abort ends the wait for a message that never comes") {
  const RankBuffers memory(1, 0, RankBuffers::page_aligned(Channels::bytes(2)), Sharing::threads);
  const Channels channels(memory.front(), 2);
  const auto teams = ThreadTeam::make(2);
  teams[1]->abort();
  std::byte byte{};
  const Transfer recv{1, &byte, 1};
  CHECK_THROWS_AS(exchange_chunks(channels, identity(2), 0, {}, {&recv, 1}, 1, *teams[0]), JobAborted);
  // Two chunks wait in the channel, a third has no room.
  std::vector<std::byte> data(3 * channels.chunk_bytes());
  const Transfer send{1, data.data(), data.size()};
  CHECK_THROWS_AS(exchange_chunks(channels, identity(2), 0, {&send, 1}, {}, 1, *teams[0]), JobAborted);
}
