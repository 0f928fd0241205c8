// Calls of a rank to its communicator during a run. All ranks make the same calls in the same order, whatever data they
// move. A backend in which one rank launches for others depends on this.
#include <string>
#include <vector>

#include "support_run.hpp"

using namespace busbw;

namespace {

using Calls = std::vector<std::string>;

/// A host-memory communicator that logs its calls.
class NotingCommunicator final : public Communicator {
 public:
  NotingCommunicator(std::unique_ptr<Communicator> inner, Calls& calls, std::function<void()> on_release)
      : inner_(std::move(inner)), calls_(calls), on_release_(std::move(on_release)) {}
  ~NotingCommunicator() override { on_release_(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::span<std::byte> send_buffer() override { return inner_->send_buffer(); }
  std::span<std::byte> recv_buffer() override { return inner_->recv_buffer(); }
  void all_reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    calls_.emplace_back("all_reduce");
    inner_->all_reduce(send, recv, count, dtype, redop);
  }
  void reduce(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop, int root) override {
    calls_.emplace_back("reduce");
    inner_->reduce(send, recv, count, dtype, redop, root);
  }
  void reduce_scatter(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, Redop redop) override {
    calls_.emplace_back("reduce_scatter");
    inner_->reduce_scatter(send, recv, count, dtype, redop);
  }
  void all_gather(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    calls_.emplace_back("all_gather");
    inner_->all_gather(send, recv, count, dtype);
  }
  void broadcast(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    calls_.emplace_back("broadcast");
    inner_->broadcast(send, recv, count, dtype, root);
  }
  void gather(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    calls_.emplace_back("gather");
    inner_->gather(send, recv, count, dtype, root);
  }
  void scatter(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype, int root) override {
    calls_.emplace_back("scatter");
    inner_->scatter(send, recv, count, dtype, root);
  }
  void alltoall(const std::byte* send, std::byte* recv, std::size_t count, Dtype dtype) override {
    calls_.emplace_back("alltoall");
    inner_->alltoall(send, recv, count, dtype);
  }
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) override {
    calls_.emplace_back("exchange");
    inner_->exchange(sends, recvs, dtype);
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    calls_.emplace_back("copy");
    inner_->copy(to, from, bytes);
  }
  void begin_group() override { calls_.emplace_back("begin_group"); }
  void end_group() override { calls_.emplace_back("end_group"); }
  void synchronize() override {
    calls_.emplace_back("synchronize");
    inner_->synchronize();
  }
  void fill(std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements) override {
    inner_->fill(memory, stream, first, elements);
  }
  void compare(const std::byte* memory, const DataStream& stream, std::uint64_t first, std::size_t elements,
               std::uint64_t index_base, Mismatches& mismatches) override {
    inner_->compare(memory, stream, first, elements, index_base, mismatches);
  }

 private:
  std::unique_ptr<Communicator> inner_;
  Calls& calls_;
  std::function<void()> on_release_;
};

class NotingBackend final : public Backend {
 public:
  explicit NotingBackend(int ranks) : inner_(1, ranks, "0"), calls_(static_cast<std::size_t>(ranks)) {}
  const BackendTraits& traits() const override { return inner_.traits(); }
  std::string version() const override { return inner_.version(); }
  Device device(int index) const override { return inner_.device(index); }
  std::size_t available_bytes(int ranks) const override { return inner_.available_bytes(ranks); }
  std::size_t work_bytes(int ranks) const override { return inner_.work_bytes(ranks); }
  void reserve(int ranks, std::size_t bytes) override { inner_.reserve(ranks, bytes); }
  std::unique_ptr<Communicator> connect(Team& world, Team& group) override {
    return std::make_unique<NotingCommunicator>(inner_.connect(world, group),
                                                calls_[static_cast<std::size_t>(world.rank())], on_release);
  }
  const std::vector<Calls>& calls() const { return calls_; }
  /// Called before a communicator is released.
  std::function<void()> on_release = [] {};

 private:
  SharedMemoryBackend inner_;
  std::vector<Calls> calls_;
};

/// Calls of each rank in a run of two sizes. At the smaller size some ranks have no data to move.
std::vector<Calls> calls_of(const std::string& name, int ranks, RunSettings settings, const CollectiveSettings& own) {
  const auto collective = make_collective(name, own);
  settings.processes = ranks;
  const RunPlan plan{*collective, {{configuration_of(name, 1)}, {4, 4096}, 1},
                     settings,    {Placement::out_of_place, Placement::in_place},
                     {},          4096};
  NotingBackend backend(ranks);
  backend.reserve(ranks, buffer_bytes(plan.max_bytes, 0));
  LocalJob job(ranks);
  Reporter reporter({}, std::nullopt);
  const auto ends = run_as_threads(job, [&](Team& world) { run_rank(plan, backend, job, world.rank(), &reporter); });
  CHECK(ends == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  return backend.calls();
}

void check_alike(const std::string& name, int ranks, const RunSettings& settings, const CollectiveSettings& own = {}) {
  const auto calls = calls_of(name, ranks, settings, own);
  REQUIRE(!calls[0].empty());
  for (int rank = 1; rank < ranks; ++rank) {
    CAPTURE(rank);
    CHECK(calls[static_cast<std::size_t>(rank)] == calls[0]);
  }
}

}  // namespace

TEST_CASE("run_rank: in every collective all ranks make the same calls in the same order") {
  for (const CollectiveEntry& entry : all_collectives()) {
    CAPTURE(entry.name);
    check_alike(std::string(entry.name), 4, RunSetup::few_iterations());
  }
}

TEST_CASE("run_rank: all ranks make the same calls in a ping-pong, in which one rank of a pair sends first") {
  CollectiveSettings settings;
  settings.ping_pong = true;
  check_alike("sendrecv", 4, RunSetup::few_iterations(), settings);
}

TEST_CASE("run_rank: all ranks make the same calls with aggregated operations and waits between them") {
  for (const int blocking : {0, 1, 2, 3}) {
    CAPTURE(blocking);
    RunSettings settings = RunSetup::few_iterations();
    settings.blocking = blocking;
    settings.aggregated_iterations = 2;
    check_alike("hypercube", 4, settings);
    check_alike("all_reduce", 3, settings);
  }
}

TEST_CASE("run_rank: a failure is reported before the rank releases its communicator") {
  const auto collective = make_collective("all_reduce", {});
  RunPlan plan{*collective, {{configuration_of("all_reduce", 0)}, {64}, 1}, {}, {Placement::in_place}, {}, 64};
  NotingBackend backend(1);
  backend.reserve(1, buffer_bytes(plan.max_bytes, 0));
  LocalJob job(1);
  std::optional<Failure> failure;  // of the job, when the communicator was released
  backend.on_release = [&] { failure = job.failure(); };
  Reporter reporter = reporter_to([](const auto&) { throw EnvironmentError("the disk is full"); }, [](const auto&) {});
  const auto ends = run_as_threads(job, [&](Team& world) { run_rank(plan, backend, job, world.rank(), &reporter); });
  CHECK(ends == std::vector<std::string>{"the disk is full"});
  REQUIRE(failure);
  CHECK(failure->message == "the disk is full");
}
