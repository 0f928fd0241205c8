#include "measure/checker.hpp"

#include <doctest/doctest.h>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "rendezvous/team/local_job.hpp"
#include "support_job.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kElements = 100;
constexpr std::uint64_t kMaxCheckedBytes = 4 * kElements;

/// One rank with one case of a collective. Tests change data between operation and check.
struct CheckScene {
  explicit CheckScene(const char* name, int of_ranks = 1)
      : collective(make_collective(name, {})), backend(1, of_ranks, "0"), job(of_ranks) {
    backend.reserve(of_ranks, buffer_bytes(kMaxCheckedBytes, 0));
  }
  std::unique_ptr<Collective> collective;
  SharedMemoryBackend backend;
  LocalJob job;
};

/// Objects of one rank.
struct RankScene {
  RankScene(CheckScene& scene, Team& world, int root = 0)
      : communicator(scene.backend.connect(world, world)),
        shape(scene.collective->shape(kElements, 4, world.size())),
        buffers(*communicator, shape, Dtype::float32, kMaxCheckedBytes, 0),
        values(Dtype::float32, Redop::sum, world.size()),
        checker(*communicator, buffers, values, world.rank()),
        rank_case{*scene.collective, shape, Dtype::float32, Redop::sum, root, 1} {}

  void run(Placement placement) {
    rank_case.collective.run(*communicator,
                             buffers.call(placement, 0, rank_case.dtype, rank_case.redop, rank_case.root));
  }
  std::unique_ptr<Communicator> communicator;
  Shape shape;
  CaseBuffers buffers;
  ReductionValues values;
  Checker checker;
  RankCase rank_case;
};

RankCheckResult verify(RankScene& rank, Placement placement) {
  RankCheckResult check_result = rank.checker.verify_result(rank.rank_case, placement);
  rank.checker.verify_untouched(rank.rank_case, placement, check_result);
  return check_result;
}

/// Check result of one rank after `damage` changed the result of an all-reduce, out of place or in place.
RankCheckResult check_after(Placement placement, const std::function<void(RankScene&)>& damage) {
  CheckScene scene("all_reduce");
  const auto world = scene.job.team(0);
  RankScene rank(scene, *world);
  rank.checker.prepare(rank.rank_case, placement);
  rank.run(placement);
  damage(rank);
  return verify(rank, placement);
}

}  // namespace

TEST_CASE("checker: a correct result passes") {
  for (const Placement placement : {Placement::out_of_place, Placement::in_place})
    CHECK(check_after(placement, [](RankScene&) {}).wrong_elements == 0);
}

TEST_CASE("checker: detects each single bit of the first, a middle and the last element") {
  for (const std::size_t index : {std::size_t{0}, std::size_t{41}, kElements - 1})
    for (int bit = 0; bit < 32; ++bit) {
      const RankCheckResult check_result = check_after(Placement::out_of_place, [&](RankScene& rank) {
        rank.buffers.recv_data(Placement::out_of_place)[4 * index + static_cast<std::size_t>(bit) / 8] ^= std::byte{1}
                                                                                                          << (bit % 8);
      });
      REQUIRE(check_result.wrong_elements == 1);
      REQUIRE(check_result.first_wrong.size() == 1);
      CHECK(check_result.first_wrong[0].index == static_cast<std::int64_t>(index));
      CHECK(check_result.first_wrong[0].rank == 0);
      CHECK(check_result.first_wrong[0].place == "receive buffer");
      CHECK(check_result.first_wrong[0].expected != check_result.first_wrong[0].got);
    }
}

TEST_CASE("checker: a result that was never written is wrong everywhere, and only the first are kept") {
  CheckScene scene("all_reduce");
  const auto world = scene.job.team(0);
  RankScene rank(scene, *world);
  rank.checker.prepare(rank.rank_case, Placement::out_of_place);
  const RankCheckResult check_result = verify(rank, Placement::out_of_place);
  CHECK(check_result.wrong_elements == kElements);
  REQUIRE(check_result.first_wrong.size() == Mismatches::kKept);
  for (std::size_t i = 0; i < check_result.first_wrong.size(); ++i)
    CHECK(check_result.first_wrong[i].index == static_cast<std::int64_t>(i));
}

TEST_CASE("checker: data of an earlier check counts as wrong in the next") {
  CheckScene scene("all_reduce");
  const auto world = scene.job.team(0);
  RankScene rank(scene, *world);
  rank.checker.prepare(rank.rank_case, Placement::out_of_place);
  rank.run(Placement::out_of_place);
  rank.rank_case.seed = 2;
  CHECK(verify(rank, Placement::out_of_place).wrong_elements > kElements / 2);
}

TEST_CASE("checker: detects and names a changed byte in each of the four guards") {
  struct GuardCase {
    const char* name;
    bool send;
    bool after;
  };
  for (const GuardCase& place : {GuardCase{"guard before the send buffer, byte", true, false},
                                 {"guard after the send buffer, byte", true, true},
                                 {"guard before the receive buffer, byte", false, false},
                                 {"guard after the receive buffer, byte", false, true}})
    for (const std::size_t index : {std::size_t{0}, kGuardBytes - 1}) {
      const RankCheckResult check_result = check_after(Placement::out_of_place, [&](RankScene& rank) {
        std::byte* data = place.send ? rank.buffers.send_data(Placement::out_of_place)
                                     : rank.buffers.recv_data(Placement::out_of_place);
        std::byte* guard = place.after ? data + 4 * kElements : data - kGuardBytes;
        guard[index] ^= std::byte{0x10};
      });
      REQUIRE(check_result.wrong_elements == 1);
      CHECK(check_result.first_wrong.at(0).place == place.name);
      CHECK(check_result.first_wrong.at(0).index == static_cast<std::int64_t>(index));
    }
}

TEST_CASE("checker: detects changes of the first and last byte that must stay untouched, in and out of place") {
  for (const char* name : {"reduce", "gather"})
    for (const Placement placement : {Placement::out_of_place, Placement::in_place})
      for (const bool last : {false, true}) {
        CAPTURE(name);
        CheckScene scene(name, 3);
        std::vector<RankCheckResult> check_result(3);
        const auto ends = run_as_threads(scene.job, [&](Team& world) {
          RankScene rank(scene, world, 0);
          rank.checker.prepare(rank.rank_case, placement);
          world.barrier();
          rank.run(placement);
          world.barrier();
          std::byte* result = rank.buffers.recv_data(placement);
          if (world.rank() == 2) result[last ? 4 * rank.shape.recv_count - 1 : 0] ^= std::byte{1};
          check_result[static_cast<std::size_t>(world.rank())] = verify(rank, placement);
        });
        REQUIRE(ends == std::vector<std::string>(3));
        CHECK(check_result[0].wrong_elements == 0);
        CHECK(check_result[1].wrong_elements == 0);
        REQUIRE(check_result[2].wrong_elements == 1);
        CHECK(check_result[2].first_wrong[0].rank == 2);
        const auto count = static_cast<std::int64_t>(scene.collective->shape(kElements, 4, 3).recv_count);
        CHECK(check_result[2].first_wrong[0].index == (last ? count - 1 : 0));
      }
}

TEST_CASE("checker: in place, detects changes around the result, at indices relative to it") {
  for (const char* name : {"reduce_scatter", "scatter"})
    for (const bool before : {true, false}) {
      CAPTURE(name);
      CheckScene scene(name, 3);
      std::vector<RankCheckResult> check_result(3);
      const auto ends = run_as_threads(scene.job, [&](Team& world) {
        RankScene rank(scene, world, 1);
        rank.checker.prepare(rank.rank_case, Placement::in_place);
        world.barrier();
        rank.run(Placement::in_place);
        world.barrier();
        const auto region = rank.buffers.recv_region(Placement::in_place);
        if (world.rank() == 1) (before ? region.front() : region.back()) ^= std::byte{1};
        check_result[static_cast<std::size_t>(world.rank())] = verify(rank, Placement::in_place);
      });
      REQUIRE(ends == std::vector<std::string>(3));
      CHECK(check_result[0].wrong_elements == 0);
      CHECK(check_result[2].wrong_elements == 0);
      REQUIRE(check_result[1].wrong_elements == 1);
      CHECK(check_result[1].first_wrong[0].place == "receive buffer");
      const auto share = static_cast<std::int64_t>(scene.collective->shape(kElements, 4, 3).recv_count);
      CHECK(check_result[1].first_wrong[0].index == (before ? -share : 2 * share - 1));
    }
}
