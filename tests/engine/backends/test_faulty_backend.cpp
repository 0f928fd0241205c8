#include "backends/faulty_backend.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "common/support/error.hpp"
#include "support_cases.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

constexpr std::size_t kBufferBytes = 64 << 10;

std::unique_ptr<Backend> backend_of(int ranks) {
  auto backend = std::make_unique<SharedMemoryBackend>(1, ranks, "0");
  backend->reserve(ranks, kBufferBytes);
  return backend;
}

/// A backend of `ranks` threads with one fault. Counts the copies.
std::unique_ptr<Backend> faulty(int ranks, std::string_view fault, std::atomic<int>& copies) {
  return inject_faults(backend_of(ranks), {parse_fault(fault)},
                       [&copies](std::byte* to, const std::byte* from, std::size_t bytes) {
                         ++copies;
                         std::memcpy(to, from, bytes);
                       });
}

using Names = std::set<std::string>;

/// The names of the virtual functions of a class of backend.hpp.
Names virtuals_of(const std::string& name) {
  std::ifstream file(BUSBW_TEST_DIR "/../engine/backends/backend.hpp");
  std::stringstream text;
  text << file.rdbuf();
  std::string code = text.str();
  code.erase(0, code.find("\nclass " + name + " {"));
  code.erase(code.find("\n};"));
  static const std::regex kVirtual(R"(\n  virtual [^~(\n]*?(\w+)\()");
  Names names;
  for (std::sregex_iterator found(code.begin(), code.end(), kVirtual), end; found != end; ++found)
    names.insert((*found)[1]);
  return names;
}

/// Records the names of the called functions and returns placeholder values.
class RecordingCommunicator final : public Communicator {
 public:
  explicit RecordingCommunicator(Names& called) : called_(called) {}
  int rank() const override { return record("rank"), 0; }
  int size() const override { return record("size"), 1; }
  std::span<std::byte> send_buffer() override { return record("send_buffer"), std::span<std::byte>(); }
  std::span<std::byte> recv_buffer() override { return record("recv_buffer"), std::span<std::byte>(); }
  void all_reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override { record("all_reduce"); }
  void reduce(const std::byte*, std::byte*, std::size_t, Dtype, Redop, int) override { record("reduce"); }
  void reduce_scatter(const std::byte*, std::byte*, std::size_t, Dtype, Redop) override { record("reduce_scatter"); }
  void all_gather(const std::byte*, std::byte*, std::size_t, Dtype) override { record("all_gather"); }
  void broadcast(const std::byte*, std::byte*, std::size_t, Dtype, int) override { record("broadcast"); }
  void gather(const std::byte*, std::byte*, std::size_t, Dtype, int) override { record("gather"); }
  void scatter(const std::byte*, std::byte*, std::size_t, Dtype, int) override { record("scatter"); }
  void alltoall(const std::byte*, std::byte*, std::size_t, Dtype) override { record("alltoall"); }
  void exchange(std::span<const Transfer>, std::span<const Transfer>, Dtype) override { record("exchange"); }
  void copy(std::byte*, const std::byte*, std::size_t) override { record("copy"); }
  void begin_group() override { record("begin_group"); }
  void end_group() override { record("end_group"); }
  void begin_multi_step() override { record("begin_multi_step"); }
  void end_multi_step(std::span<std::byte>, Dtype) override { record("end_multi_step"); }
  void flush() override { record("flush"); }
  void synchronize() override { record("synchronize"); }
  Timestamps* timestamps() override { return record("timestamps"), nullptr; }
  bool can_capture() const override { return record("can_capture"), true; }
  void begin_capture() override { record("begin_capture"); }
  std::unique_ptr<OperationGraph> end_capture() override { return record("end_capture"), nullptr; }
  Gate* gate() override { return record("gate"), nullptr; }
  std::optional<DeviceClockState> clock_state() override { return record("clock_state"), std::nullopt; }
  std::optional<MemoryUse> memory() override { return record("memory"), MemoryUse{{}, 7, {}, {}}; }
  void fill(std::byte*, const DataStream&, std::uint64_t, std::size_t) override { record("fill"); }
  void compare(const std::byte*, const DataStream&, std::uint64_t, std::size_t, std::uint64_t, Mismatches&) override {
    record("compare");
  }
  void enter(Phase) override { record("enter"); }

 private:
  void record(const char* name) const { called_.insert(name); }
  Names& called_;
};

class RecordingBackend final : public Backend {
 public:
  RecordingBackend(Names& called, Names& called_of_rank) : called_(called), called_of_rank_(called_of_rank) {}
  std::string name() const override { return record("name"); }
  std::string version() const override { return record("version"); }
  std::optional<LibraryInfo> library() const override { return record("library"), std::nullopt; }
  std::string headers() const override { return record("headers"); }
  Device device(int) const override { return record("device"), Device(); }
  std::size_t available_bytes(int) const override { return record("available_bytes"), 1; }
  std::optional<Limitation> limitation_of(Dtype, bool) const override {
    return Limitation{record("limitation_of"), {}};
  }
  std::string least_free_device() const override { return record("least_free_device"); }
  std::size_t work_bytes(int) const override { return record("work_bytes"), 1; }
  std::vector<std::pair<std::string, std::string>> facts() const override { return record("facts"), Pairs(); }
  std::vector<std::string> warnings() const override { return {record("warnings")}; }
  std::vector<std::string> diagnosis() const override { return {record("diagnosis")}; }
  void reserve(int, std::size_t) override { record("reserve"); }
  void enter(Phase, int) override { record("enter"); }
  std::unique_ptr<Communicator> connect(Team&, Team&) override {
    record("connect");
    return std::make_unique<RecordingCommunicator>(called_of_rank_);
  }

 private:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  std::string record(const char* name) const { return *called_.insert(name).first; }
  Names& called_;
  Names& called_of_rank_;
};

}  // namespace

TEST_CASE("inject_faults: every call is forwarded to the wrapped backend") {
  Names called;
  Names called_of_rank;
  const auto backend = inject_faults(std::make_unique<RecordingBackend>(called, called_of_rank),
                                     {parse_fault("flip:rank=0,index=0,bit=0")}, {});
  CHECK(backend->name() == "name");
  CHECK(backend->version() == "version");
  CHECK_FALSE(backend->library());
  CHECK(backend->headers() == "headers");
  CHECK(backend->device(0).index == 0);
  CHECK(backend->available_bytes(1) == 1);
  CHECK(backend->limitation_of(Dtype::uint8, true).value_or(Limitation()).reason == "limitation_of");
  CHECK(backend->least_free_device() == "least_free_device");
  CHECK(backend->work_bytes(1) == 1);
  CHECK(backend->facts().empty());
  CHECK(backend->warnings().size() == 1);
  CHECK(backend->diagnosis().size() == 1);
  backend->reserve(1, 8);
  backend->enter(Phase::initialisation, 0);
  const auto teams = ThreadTeam::make(1);
  const auto rank = backend->connect(*teams[0], *teams[0]);
  CHECK(called == virtuals_of("Backend"));

  const DataStream stream;
  Mismatches mismatches;
  CHECK(rank->rank() == 0);
  CHECK(rank->size() == 1);
  CHECK(rank->send_buffer().empty());
  CHECK(rank->recv_buffer().empty());
  rank->all_reduce(nullptr, nullptr, 1, Dtype::uint8, Redop::sum);
  rank->reduce(nullptr, nullptr, 1, Dtype::uint8, Redop::sum, 0);
  rank->reduce_scatter(nullptr, nullptr, 1, Dtype::uint8, Redop::sum);
  rank->all_gather(nullptr, nullptr, 1, Dtype::uint8);
  rank->broadcast(nullptr, nullptr, 1, Dtype::uint8, 0);
  rank->gather(nullptr, nullptr, 1, Dtype::uint8, 0);
  rank->scatter(nullptr, nullptr, 1, Dtype::uint8, 0);
  rank->alltoall(nullptr, nullptr, 1, Dtype::uint8);
  rank->exchange({}, {}, Dtype::uint8);
  rank->copy(nullptr, nullptr, 1);
  rank->begin_group();
  rank->end_group();
  rank->begin_multi_step();
  rank->end_multi_step({}, Dtype::uint8);
  rank->flush();
  rank->synchronize();
  CHECK(rank->timestamps() == nullptr);
  CHECK(rank->can_capture());
  rank->begin_capture();
  CHECK(rank->end_capture() == nullptr);
  CHECK(rank->gate() == nullptr);
  CHECK_FALSE(rank->clock_state());
  CHECK(rank->memory().value_or(MemoryUse()).library_bytes == 7);
  rank->fill(nullptr, stream, 0, 1);
  rank->compare(nullptr, stream, 0, 1, 0, mismatches);
  rank->enter(Phase::timing);
  CHECK(called_of_rank == virtuals_of("Communicator"));
}

TEST_CASE("inject_faults: a flip changes only its rank's result, and only in the check phase") {
  for (const std::string_view collective : kCollectives) {
    for (const bool in_place : {false, true}) {
      std::atomic<int> copies = 0;
      const auto backend = faulty(3, "flip:rank=1,index=7,bit=3", copies);
      const Case of{collective, Dtype::float32, Redop::sum, 100, 1, in_place};
      const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
        const auto communicator = backend->connect(world, world);
        communicator->enter(Phase::timing);
        if (!CaseRunner(*communicator, of).run().empty() || copies != 0) return "corrupted too early; ";
        world.barrier();
        communicator->enter(Phase::check);
        const bool wrong = !CaseRunner(*communicator, of).run().empty();
        return wrong == (world.rank() == 1) ? "" : "not corrupted, or on the wrong rank; ";
      });
      CAPTURE(collective);
      CHECK(complaints == "");
      CHECK(copies == 2);
    }
  }
}

TEST_CASE("inject_faults: a result is corrupted once, after its rank has waited for it") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(1, "flip:rank=0,index=2,bit=0", copies);
  const std::string complaints = run_threads(1, [&](Team& world) -> std::string {
    const auto communicator = backend->connect(world, world);
    communicator->enter(Phase::check);
    std::byte* const send = communicator->send_buffer().data();
    std::byte* const recv = communicator->recv_buffer().data();
    std::memset(send, 4, 16);
    communicator->all_reduce(send, recv, 16, Dtype::uint8, Redop::sum);
    if (recv[2] != std::byte{4}) return "corrupted before the wait; ";
    communicator->synchronize();
    communicator->synchronize();
    return recv[1] == std::byte{4} && recv[2] == std::byte{5} ? "" : "not corrupted once; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("inject_faults: an overrun changes the byte after the received data") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(1, "overrun:rank=0", copies);
  const std::string complaints = run_threads(1, [&](Team& world) -> std::string {
    const auto communicator = backend->connect(world, world);
    communicator->enter(Phase::check);
    std::byte* const send = communicator->send_buffer().data();
    std::byte* const recv = communicator->recv_buffer().data();
    std::memset(recv, 0, 9);
    const Transfer to_myself{0, send, 8};
    const Transfer from_myself{0, recv, 8};
    communicator->exchange({&to_myself, 1}, {&from_myself, 1}, Dtype::uint8);
    communicator->synchronize();
    return recv[8] == std::byte{0xff} ? "" : "not corrupted; ";
  });
  CHECK(complaints == "");
}

TEST_CASE("inject_faults: a multi-step result is corrupted once, when it is complete") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(4, "flip:rank=1,index=7,bit=3", copies);
  const auto hypercube = make_collective("hypercube", {});
  constexpr std::size_t kShare = 16;
  const std::string complaints = run_threads(4, [&](Team& world) -> std::string {
    const auto communicator = backend->connect(world, world);
    communicator->enter(Phase::check);
    std::byte* const recv = communicator->recv_buffer().data();
    std::memset(communicator->send_buffer().data(), 1 + world.rank(), kShare);
    hypercube->run(*communicator, {communicator->send_buffer().data(), recv, kShare, Dtype::uint8, Redop::sum, 0});
    communicator->synchronize();
    for (std::size_t i = 0; i < 4 * kShare; ++i) {
      const std::byte right{static_cast<unsigned char>(1 + i / kShare)};
      const bool is_struck = world.rank() == 1 && i == 7;
      if (recv[i] != (is_struck ? right ^ std::byte{8} : right)) return "wrong at " + std::to_string(i) + "; ";
    }
    return "";
  });
  CHECK(complaints == "");
  CHECK(copies == 2);
}

TEST_CASE("inject_faults: an unknown rank is an error, and a backend without faults is returned unchanged") {
  std::atomic<int> copies = 0;
  const auto backend = faulty(2, "flip:rank=2,index=0,bit=0", copies);
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    try {
      backend->connect(world, world);
    } catch (const UsageError& error) {
      return std::string(error.what()) == "--fault with rank=2: no such rank; use a rank from 0 to 1" ? ""
                                                                                                      : error.what();
    }
    return "accepted; ";
  });
  CHECK(complaints == "");
  auto plain = backend_of(1);
  const Backend* const same = plain.get();
  CHECK(inject_faults(std::move(plain), {}, {}).get() == same);
}
