#include "fastpath/peers/rank_capabilities.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace busbw::fastpath;

namespace {

template <std::size_t n>
void set(std::array<char, n>& to, std::string_view text) {
  to = {};
  std::copy(text.begin(), text.end(), to.begin());
}

/// Ranks that lack nothing.
std::vector<RankCapabilities> ranks_of(std::size_t count) {
  std::vector<RankCapabilities> ranks(count);
  for (std::size_t r = 0; r < count; ++r) {
    RankCapabilities& one = ranks[r];
    one.layout = kLayout;
    one.choices = 17;
    one.host = {1, 2};
    one.process = {r, 5};
    set(one.bus_id, "0000:0" + std::to_string(r) + ":00.0");
    set(one.gpu, "GPU A");
    one.capability_major = 9;
    one.cells = 4096;
    one.is_ready = 1;
  }
  return ranks;
}

/// What is said where rank 2 of 4 differs.
template <class Change>
std::string said(Change change) {
  std::vector<RankCapabilities> ranks = ranks_of(4);
  change(ranks[2]);
  return refusal_reason(ranks);
}

std::size_t bytes_for(int ranks, int cells) { return static_cast<std::size_t>(ranks) * cells * 128 + 4096; }

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("two to eight ranks that are alike can have a fast path") {
  for (std::size_t count = 2; count <= 8; ++count) CHECK(refusal_reason(ranks_of(count)).empty());
  CHECK(refusal_reason(ranks_of(1)) == "a single rank has nobody to talk to");
  CHECK(refusal_reason(ranks_of(9)) == "9 ranks are more than the 8 it knows");
}

TEST_CASE("what a rank lacks is said, with its number") {
  CHECK(said([](RankCapabilities& one) { one.layout = kLayout + 1; }) == "rank 2 has another version of this library");
  CHECK(said([](RankCapabilities& one) { one.host = {1, 3}; }) == "ranks 0 and 2 are on different hosts");
  CHECK(said([](RankCapabilities& one) { set(one.gpu, "GPU B"); }) == "the GPUs differ: GPU A at rank 0, GPU B at rank 2");
  CHECK(said([](RankCapabilities& one) { one.capability_major = 8; }).starts_with("the GPUs differ"));
  CHECK(said([](RankCapabilities& one) { one.choices = 18; }) ==
        "ranks 0 and 2 have different tables or BUSBW_FASTPATH variables; set the same everywhere");
  CHECK(said([](RankCapabilities& one) { set(one.bus_id, "0000:01:00.0"); }) == "ranks 1 and 2 share GPU 0000:01:00.0");
  CHECK(said([](RankCapabilities& one) { one.cells = 0; }) ==
        "rank 2 has no room left on its GPU for another communicator; raise BUSBW_FASTPATH_MIB");
  CHECK(said([](RankCapabilities& one) { one.needs_nccl = 1; }) ==
        "rank 2 has NCCL_LAUNCH_ORDER_IMPLICIT, NCCL_CHECK_MODE or NCCL_CHECK_POINTERS set, which only NCCL heeds");
}

TEST_CASE("hosts that are not known are not taken for one") {
  std::vector<RankCapabilities> ranks = ranks_of(2);
  for (RankCapabilities& one : ranks) one.host = {};
  CHECK(refusal_reason(ranks) == "rank 0 does not know its host");
}

TEST_CASE("a layout is looked at first: facts of another version may mean anything") {
  CHECK(said([](RankCapabilities& one) { one = RankCapabilities{}; }) == "rank 2 has another version of this library");
}

TEST_CASE("ranks in one process or in several are alike") {
  std::vector<RankCapabilities> ranks = ranks_of(3);
  for (RankCapabilities& one : ranks) one.process = {7, 7};
  CHECK(refusal_reason(ranks).empty());
}

TEST_CASE("who is not ready is named") {
  std::vector<RankCapabilities> ranks = ranks_of(4);
  CHECK(not_ready_message(ranks).empty());
  ranks[3].is_ready = 0;
  CHECK(not_ready_message(ranks) == "rank 3 could not reach every peer's memory over NVLink");
}

TEST_CASE("all have room for as many cells as the one that has least") {
  std::vector<RankCapabilities> ranks = ranks_of(4);
  ranks[1].cells = 2048;
  CHECK(common_cells(ranks) == 2048);
}

TEST_CASE("a communicator takes what is useful and leaves room for those that come later") {
  CHECK(bytes_for(4, cells_that_fit(64 * kMiB, 4, bytes_for)) == 32 * kMiB + 4096);
  CHECK(cells_that_fit(64 * kMiB, 2, bytes_for) == 1 << 17);
  CHECK(cells_that_fit(64 * kMiB, 3, bytes_for) == 1 << 16);
  CHECK(cells_that_fit(64 * kMiB, 8, bytes_for) == 1 << 15);
  CHECK(cells_that_fit(1024 * kMiB, 4, bytes_for) == 1 << 16);  // no more than is useful
  for (int ranks = 2; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    std::size_t left = 64 * kMiB;
    int cells = cells_that_fit(left, ranks, bytes_for);
    int communicators = 0;
    while (cells > 0) {
      ++communicators;
      CHECK(bytes_for(ranks, cells) <= left / 8 * 5);
      left -= bytes_for(ranks, cells);
      const int next = cells_that_fit(left, ranks, bytes_for);
      CHECK(next <= cells);
      cells = next;
    }
    CHECK(communicators >= 4);
    CHECK(left < 4 * kMiB);
  }
  CHECK(cells_that_fit(0, 2, bytes_for) == 0);
}
