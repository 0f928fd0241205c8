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

/// Returns ranks that can have a fast path.
std::vector<RankCapabilities> ranks_of(std::size_t count) {
  std::vector<RankCapabilities> ranks(count);
  for (std::size_t r = 0; r < count; ++r) {
    RankCapabilities& one = ranks[r];
    one.layout_version = kLayoutVersion;
    one.selector_hash = 17;
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

/// Returns the refusal reason of four ranks, of which rank 2 is changed.
template <class Change>
std::string said(Change change) {
  std::vector<RankCapabilities> ranks = ranks_of(4);
  change(ranks[2]);
  return refusal_reason(ranks);
}

std::size_t bytes_for(int ranks, int cells) { return static_cast<std::size_t>(ranks) * cells * 128 + 4096; }

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("two to eight equal ranks can have a fast path") {
  for (std::size_t count = 2; count <= 8; ++count) CHECK(refusal_reason(ranks_of(count)).empty());
  CHECK(refusal_reason(ranks_of(1)) == "a single rank has no peers");
  CHECK(refusal_reason(ranks_of(9)) == "9 ranks are more than the supported 8");
}

TEST_CASE("the refusal reason names the rank") {
  CHECK(said([](RankCapabilities& one) { one.layout_version = kLayoutVersion + 1; }) ==
        "rank 2 has another version of this library");
  CHECK(said([](RankCapabilities& one) { one.host = {1, 3}; }) == "ranks 0 and 2 are on different hosts");
  CHECK(said([](RankCapabilities& one) { set(one.gpu, "GPU B"); }) ==
        "the GPUs differ: GPU A on rank 0, GPU B on rank 2");
  CHECK(said([](RankCapabilities& one) { one.capability_major = 8; }).starts_with("the GPUs differ"));
  CHECK(said([](RankCapabilities& one) { one.selector_hash = 18; }) ==
        "ranks 0 and 2 have different tables or BUSBW_FASTPATH variables; use the same on every rank");
  CHECK(said([](RankCapabilities& one) { set(one.bus_id, "0000:01:00.0"); }) == "ranks 1 and 2 share GPU 0000:01:00.0");
  CHECK(said([](RankCapabilities& one) { one.cells = 0; }) ==
        "rank 2 has no scratch memory left for another communicator; raise BUSBW_FASTPATH_MIB");
  CHECK(said([](RankCapabilities& one) { one.needs_nccl = 1; }) ==
        "rank 2 sets NCCL_LAUNCH_ORDER_IMPLICIT, NCCL_CHECK_MODE or NCCL_CHECK_POINTERS, which only NCCL supports");
}

TEST_CASE("ranks with unknown hosts are refused") {
  std::vector<RankCapabilities> ranks = ranks_of(2);
  for (RankCapabilities& one : ranks) one.host = {};
  CHECK(refusal_reason(ranks) == "rank 0 cannot identify its host");
}

TEST_CASE("the layout is checked first, because other versions have other fields") {
  CHECK(said([](RankCapabilities& one) { one = RankCapabilities{}; }) == "rank 2 has another version of this library");
}

TEST_CASE("ranks may be in one process or in several") {
  std::vector<RankCapabilities> ranks = ranks_of(3);
  for (RankCapabilities& one : ranks) one.process = {7, 7};
  CHECK(refusal_reason(ranks).empty());
}

TEST_CASE("a rank that is not ready is named, with both possible reasons") {
  std::vector<RankCapabilities> ranks = ranks_of(4);
  CHECK(not_ready_message(ranks).empty());
  ranks[3].is_ready = 0;
  CHECK(not_ready_message(ranks) ==
        "rank 3 cannot access every peer's memory over NVLink, or its setup failed with the error in its log");
}

TEST_CASE("the common number of cells is the minimum of all ranks") {
  std::vector<RankCapabilities> ranks = ranks_of(4);
  ranks[1].cells = 2048;
  CHECK(common_cells(ranks) == 2048);
}

TEST_CASE("a communicator takes a useful amount of memory and leaves some for later ones") {
  CHECK(bytes_for(4, cells_that_fit(64 * kMiB, 4, bytes_for)) == 32 * kMiB + 4096);
  CHECK(cells_that_fit(64 * kMiB, 2, bytes_for) == 1 << 17);
  CHECK(cells_that_fit(64 * kMiB, 3, bytes_for) == 1 << 16);
  CHECK(cells_that_fit(64 * kMiB, 8, bytes_for) == 1 << 15);
  CHECK(cells_that_fit(1024 * kMiB, 4, bytes_for) == 1 << 16);  // the maximum useful number
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
