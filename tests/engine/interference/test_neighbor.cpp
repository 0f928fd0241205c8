#include "interference/neighbor.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "support_job.hpp"

using namespace busbw;

namespace {

constexpr std::uint64_t kBytes = 4096;
constexpr int kRanks = 3;

/// An alltoall that calls `change` before each operation.
class ChangedAlltoall final : public Collective {
 public:
  explicit ChangedAlltoall(std::function<void(Communicator&, const CollectiveCall&)> change)
      : Collective(facts::alltoall), inner_(make_collective("alltoall", {})), change_(std::move(change)) {}
  Segments expected_segments(const Shape& shape, const RankPosition& position) const override {
    return inner_->expected_segments(shape, position);
  }
  void run(Communicator& communicator, const CollectiveCall& call) const override {
    change_(communicator, call);
    inner_->run(communicator, call);
  }

 private:
  std::unique_ptr<Collective> inner_;
  std::function<void(Communicator&, const CollectiveCall&)> change_;
};

/// Runs `body` on every rank with a neighbor. Returns the first failure of the job, or "".
std::string run_with(const NeighborLoad& load, const std::function<void(Team& world, Neighbor& neighbor)>& body) {
  SharedMemoryBackend backend(1, kRanks, "1", /*further_layers=*/1, /*concurrent_layers=*/2);
  const std::size_t offset = buffer_bytes(kBytes, 0);
  backend.reserve(kRanks, offset + buffer_bytes(load.bytes, 0));
  LocalJob job(kRanks);
  run_as_threads(job, [&](Team& world) {
    const auto group = world.split(0);
    const auto measured = backend.connect(world, *group);
    Neighbor neighbor(load, backend, world, 0, *measured, offset, [&] {
      try {
        throw;
      } catch (const JobAborted&) {
      } catch (const std::exception& error) {
        job.abort(ExitCode::environment, error.what());
      }
    });
    body(world, neighbor);
  });
  return job.failure() ? job.failure()->message : "";
}

NeighborLoad load_of(const std::function<void(Communicator&, const CollectiveCall&)>& change) {
  return {.collective = std::make_shared<ChangedAlltoall>(change), .bytes = kBytes};
}

}  // namespace

TEST_CASE("neighbor: it runs from start to stop, equally often on all ranks, and moves correct data") {
  std::vector<NeighborActivity> activities(kRanks);
  const std::string failure =
      run_with(load_of([](Communicator&, const CollectiveCall&) {}), [&](Team& world, Neighbor& neighbor) {
        neighbor.prepare(7);
        for (int batch = 0; batch < 20; ++batch) {
          neighbor.start();
          world.barrier();
          neighbor.stop();
        }
        RankCheckResult result;
        neighbor.verify(result);
        CHECK(result.wrong_elements == 0);
        activities[static_cast<std::size_t>(world.rank())] = neighbor.take_activity();
        CHECK(neighbor.take_activity().operations == 0);
      });
  CHECK(failure.empty());
  for (const NeighborActivity& activity : activities) {
    CHECK(activity.operations >= 20);
    CHECK(activity.operations == activities[0].operations);
    CHECK(activity.active_s > 0);
    CHECK(activity.active_s <= activity.measured_s);
    CHECK(activity.measured_operations >= 20);  // at least one is running at the beginning of each batch
    CHECK(activity.measured_operations < activity.operations);  // the first one of each batch ends before it
    CHECK(activity.measured_operations_s >= activity.active_s);
  }
}

TEST_CASE("neighbor: activity during a check does not count for the next measurement") {
  const auto do_nothing = [](Communicator&, const CollectiveCall&) {};
  CHECK(run_with(load_of(do_nothing), [](Team&, Neighbor& neighbor) {
          neighbor.prepare(7);
          neighbor.start();
          neighbor.stop();
          neighbor.prepare(8);
          const NeighborActivity activity = neighbor.take_activity();
          CHECK(activity.operations == 0);
          CHECK(activity.measured_s == 0);
        }).empty());
}

TEST_CASE("neighbor: a failure ends the job with its message, also while others wait for it") {
  for (const int failing_operation : {1, 2, 50}) {
    std::atomic<int> operations = 0;
    const std::string failure = run_with(load_of([&](Communicator& communicator, const CollectiveCall&) {
                                           if (communicator.rank() == 1 && ++operations == failing_operation)
                                             throw std::runtime_error("the neighbor's link is down");
                                         }),
                                         [](Team& world, Neighbor& neighbor) {
                                           neighbor.prepare(7);
                                           for (int batch = 0; batch < 1000; ++batch) {
                                             neighbor.start();
                                             world.barrier();
                                             neighbor.stop();
                                           }
                                         });
    CAPTURE(failing_operation);
    CHECK(failure == "the neighbor's link is down");
  }
}

TEST_CASE("neighbor: wrong data is found and names the neighbor's buffer") {
  const std::string failure = run_with(load_of([](Communicator& communicator, const CollectiveCall& call) {
                                         if (communicator.rank() == 0)
                                           const_cast<std::byte*>(call.send)[0] ^= std::byte{1};
                                       }),
                                       [](Team& world, Neighbor& neighbor) {
                                         neighbor.prepare(7);  // runs one operation
                                         RankCheckResult result;
                                         neighbor.verify(result);
                                         CHECK(result.wrong_elements == (world.rank() == 0 ? 1 : 0));
                                         if (world.rank() == 0)
                                           CHECK(result.first_wrong.at(0).place == "neighbor's receive buffer");
                                       });
  CHECK(failure.empty());
}

TEST_CASE("neighbor: an exception of the rank ends the neighbor") {
  const std::string failure = run_with(make_local_load("MEMORY:COPY").value(), [](Team& world, Neighbor& neighbor) {
    neighbor.prepare(7);
    neighbor.start();
    if (world.rank() == 0) throw std::runtime_error("rank 0 fails");
    neighbor.stop();
  });
  CHECK(failure == "rank 0 fails");
}
