#include "backends/host/host_communicator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host/host_backend.hpp"
#include "support_ranks.hpp"
#include "support_reduction.hpp"

using namespace busbw;

namespace {

constexpr std::array<std::string_view, 8> kCollectives{"all_reduce", "reduce", "reduce_scatter", "all_gather",
                                                       "broadcast",  "gather", "scatter",        "alltoall"};

bool reduces(std::string_view collective) { return collective.find("reduce") != std::string_view::npos; }

struct Case {
  std::string_view collective;
  Dtype dtype;
  Redop redop;
  std::size_t count;  // the call's count
  int root;
  bool in_place;
};

/// One case as one rank sees it. Sizes and places in bytes.
class CaseRunner {
 public:
  CaseRunner(Communicator& communicator, const Case& of)
      : communicator_(communicator),
        case_(of),
        ranks_(static_cast<std::size_t>(communicator.size())),
        rank_(static_cast<std::size_t>(communicator.rank())),
        share_(of.count * size_bytes(of.dtype)) {}

  /// Empty, or what is wrong.
  std::string run() {
    prepare();
    call();
    communicator_.synchronize();
    return compare();
  }

 private:
  static constexpr std::size_t kMargin = 64;
  static constexpr std::byte kUntouched{0x5a};

  bool is(std::string_view collective) const { return case_.collective == collective; }
  bool is_root() const { return static_cast<int>(rank_) == case_.root; }

  std::size_t send_bytes() const {
    const bool shares = is("reduce_scatter") || is("alltoall") || is("scatter");
    return shares ? share_ * ranks_ : share_;
  }
  std::size_t recv_bytes() const {
    const bool shares = is("all_gather") || is("alltoall") || is("gather");
    return shares ? share_ * ranks_ : share_;
  }
  bool has_data_to_send() const { return is_root() || !(is("broadcast") || is("scatter")); }
  bool has_result() const { return is_root() || !(is("reduce") || is("gather")); }

  std::vector<std::byte> data_of(int rank, std::size_t first_byte, std::size_t bytes) const {
    if (!reduces(case_.collective)) return moved(rank, first_byte, bytes);
    const std::size_t width = size_bytes(case_.dtype);
    return contributions(case_.dtype, case_.redop, rank, first_byte / width, bytes / width);
  }

  void prepare() {
    const auto send = communicator_.send_buffer();
    const auto recv = communicator_.recv_buffer();
    std::fill_n(send.begin(), std::max(send_bytes(), recv_bytes()) + kMargin, kUntouched);
    std::fill_n(recv.begin(), std::max(send_bytes(), recv_bytes()) + kMargin, kUntouched);
    send_ = send.data();
    recv_ = recv.data();
    if (case_.in_place) {
      // Where NCCL defines in place: the shorter side lies in the longer one at this rank's share.
      send_ = recv_ + (is("all_gather") || is("gather") ? rank_ * share_ : 0);
      if (is("reduce_scatter") || is("scatter")) recv_ += rank_ * share_;
    }
    if (has_data_to_send()) {
      const auto data = data_of(static_cast<int>(rank_), 0, send_bytes());
      std::copy(data.begin(), data.end(), send_);
    }
    before_.assign(recv.begin(), recv.begin() + static_cast<std::ptrdiff_t>(whole()));
  }

  /// Bytes of the receive buffer that are looked at.
  std::size_t whole() const { return std::max(send_bytes(), recv_bytes()) + kMargin; }

  void call() {
    const auto [collective, dtype, redop, count, root, in_place] = case_;
    if (is("all_reduce")) communicator_.all_reduce(send_, recv_, count, dtype, redop);
    if (is("reduce")) communicator_.reduce(send_, recv_, count, dtype, redop, root);
    if (is("reduce_scatter")) communicator_.reduce_scatter(send_, recv_, count, dtype, redop);
    if (is("all_gather")) communicator_.all_gather(send_, recv_, count, dtype);
    if (is("broadcast")) communicator_.broadcast(send_, recv_, count, dtype, root);
    if (is("gather")) communicator_.gather(send_, recv_, count, dtype, root);
    if (is("scatter")) communicator_.scatter(send_, recv_, count, dtype, root);
    if (is("alltoall")) communicator_.alltoall(send_, recv_, count, dtype);
  }

  std::vector<std::byte> expected() const {
    const int all = static_cast<int>(ranks_);
    if (reduces(case_.collective)) {
      const std::size_t first = is("reduce_scatter") ? rank_ * case_.count : 0;
      return reductions(case_.dtype, case_.redop, all, first, case_.count);
    }
    if (is("broadcast")) return moved(case_.root, 0, share_);
    if (is("scatter")) return moved(case_.root, rank_ * share_, share_);
    std::vector<std::byte> result;
    for (int peer = 0; peer < all; ++peer) {
      const auto part = moved(peer, is("alltoall") ? rank_ * share_ : 0, share_);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  /// The receive buffer must hold the result and be untouched around it; so must the send buffer, out of place.
  std::string compare() const {
    std::vector<std::byte> right = before_;
    if (has_result()) {
      const auto result = expected();
      std::copy(result.begin(), result.end(), right.begin() + (recv_ - communicator_.recv_buffer().data()));
    }
    const auto recv = communicator_.recv_buffer();
    if (!std::equal(right.begin(), right.end(), recv.begin())) return complaint("wrong result");
    if (!case_.in_place && has_data_to_send()) {
      const auto data = data_of(static_cast<int>(rank_), 0, send_bytes());
      if (!std::equal(data.begin(), data.end(), send_)) return complaint("the send buffer was changed");
    }
    return {};
  }

  std::string complaint(const std::string& what) const {
    return what + ": " + std::string(case_.collective) + " " + std::string(name(case_.dtype)) + " " +
           std::string(name(case_.redop)) + " count " + std::to_string(case_.count) + " root " +
           std::to_string(case_.root) + (case_.in_place ? " in place" : " out of place") + " rank " +
           std::to_string(rank_) + " of " + std::to_string(ranks_) + "; ";
  }

  Communicator& communicator_;
  Case case_;
  std::size_t ranks_;
  std::size_t rank_;
  std::size_t share_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  std::vector<std::byte> before_;
};

/// Counts on both sides of staging, and odd.
std::vector<std::size_t> counts_of(Dtype dtype) { return {0, 1, 33, kStagingBytes / size_bytes(dtype) + 5}; }

std::string run_all(Communicator& communicator) {
  const int last = communicator.size() - 1;
  for (const std::string_view collective : kCollectives) {
    for (const Dtype dtype : kDtypes) {
      for (const Redop redop : kRedops) {
        if (!reduces(collective) && redop != Redop::sum) continue;
        for (const std::size_t count : counts_of(dtype)) {
          for (const bool in_place : {false, true}) {
            const int root = count % 2 == 0 ? 0 : last;
            const auto complaint = CaseRunner(communicator, {collective, dtype, redop, count, root, in_place}).run();
            if (!complaint.empty()) return complaint;
          }
        }
      }
    }
  }
  return {};
}

/// The largest case: alltoall of 8 ranks, and the margin.
constexpr std::size_t kBufferBytes = 8 * (kStagingBytes + 64) + 4096;

}  // namespace

TEST_CASE("HostCommunicator: every collective, type, operator and placement, ranks as threads") {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    HostBackend backend(1, ranks, "0");
    backend.reserve(ranks, kBufferBytes);
    const std::string complaints =
        run_threads(ranks, [&](Team& world) { return run_all(*backend.connect(world, world)); });
    CHECK(complaints == "");
  }
}

TEST_CASE("HostCommunicator: every collective, type, operator and placement, ranks as processes") {
  for (const auto& [processes, threads] : {std::pair{2, 1}, std::pair{3, 1}, std::pair{2, 2}}) {
    HostBackend backend(processes, threads, "0");
    backend.reserve(processes * threads, kBufferBytes);
    const std::string complaints =
        run_processes(processes, threads, [&](Team& world) { return run_all(*backend.connect(world, world)); });
    CHECK(complaints == "");
  }
}

TEST_CASE("HostCommunicator: many claims of a reduction, many chunks of an exchange, and every root") {
  constexpr std::size_t kCount = 200'003;
  HostBackend backend(1, 4, "0");
  backend.reserve(4, 4 * 4 * kCount + 4096);
  const std::string complaints = run_threads(4, [&](Team& world) {
    const auto communicator = backend.connect(world, world);
    std::string complaint;
    for (const std::string_view collective : kCollectives) {
      for (int root = 0; root < 4; ++root) {
        for (const bool in_place : {false, true}) {
          complaint +=
              CaseRunner(*communicator, {collective, Dtype::float32, Redop::sum, kCount, root, in_place}).run();
        }
      }
    }
    return complaint;
  });
  CHECK(complaints == "");
}

TEST_CASE("HostCommunicator: results that do not fit into the cache are streamed past it, and right") {
  // A cache of one byte makes every reduction a streamed one.
  const Workspace workspace(3, 100'000, Sharing::threads);
  const std::string complaints = run_threads(3, [&](Team& world) {
    HostCommunicator communicator(workspace, world, {0, 1, 2}, world.rank(), 1, {});
    return CaseRunner(communicator, {"all_reduce", Dtype::float32, Redop::sum, 20'001, 0, false}).run();
  });
  CHECK(complaints == "");
}

TEST_CASE("HostCommunicator: back to back without waits between, small and large in turn") {
  HostBackend backend(1, 3, "0");
  backend.reserve(3, 64 << 10);
  const std::string complaints = run_threads(3, [&](Team& world) -> std::string {
    const auto communicator = backend.connect(world, world);
    auto* const value = communicator->send_buffer().data();
    auto* const sum = communicator->recv_buffer().data();
    for (std::uint32_t round = 0; round < 2000; ++round) {
      const std::size_t count = round % 3 == 0 ? kStagingBytes : 1 + round % 7;
      const std::uint32_t mine = round * static_cast<std::uint32_t>(world.rank() + 1);
      std::memcpy(value, &mine, sizeof mine);
      communicator->all_reduce(value, sum, count, Dtype::uint32, Redop::sum);
      std::uint32_t got = 0;
      std::memcpy(&got, sum, sizeof got);
      if (got != 6 * round) return "round " + std::to_string(round) + "; ";
    }
    return {};
  });
  CHECK(complaints == "");
}

TEST_CASE("HostCommunicator: a ring of sends and receives, in and out of place; copies within a rank") {
  for (const int ranks : {1, 2, 3, 8}) {
    HostBackend backend(1, ranks, "0");
    constexpr std::size_t kBytes = 300'001;
    backend.reserve(ranks, kBytes);
    const std::string complaints = run_threads(ranks, [&](Team& world) -> std::string {
      const auto communicator = backend.connect(world, world);
      const int next = (world.rank() + 1) % ranks;
      const int previous = (world.rank() + ranks - 1) % ranks;
      const auto data = moved(world.rank(), 0, kBytes);
      const auto expected = moved(previous, 0, kBytes);
      auto* const recv = communicator->recv_buffer().data();
      for (const bool in_place : {false, true}) {
        auto* const from = in_place ? recv : communicator->send_buffer().data();
        communicator->copy(from, data.data(), kBytes);
        const Transfer send{next, from, kBytes};
        const Transfer get{previous, recv, kBytes};
        communicator->exchange({&send, 1}, {&get, 1}, Dtype::uint8);
        if (!std::equal(expected.begin(), expected.end(), recv)) return in_place ? "in place; " : "out of place; ";
      }
      return {};
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("HostCommunicator: fill and compare agree, and a difference is found") {
  HostBackend backend(1, 1, "0");
  backend.reserve(1, 1 << 20);
  const auto teams = ThreadTeam::make(1);
  const auto communicator = backend.connect(*teams[0], *teams[0]);
  const Stream stream = moved_stream(Dtype::float32, 0, 7);
  auto* const at = communicator->recv_buffer().data();
  communicator->fill(at, stream, 5, 10'000);
  Mismatches mismatches;
  communicator->compare(at, stream, 5, 10'000, 0, mismatches);
  CHECK(mismatches.count == 0);
  at[4 * 777] ^= std::byte{1};
  communicator->compare(at, stream, 5, 10'000, 100, mismatches);
  REQUIRE(mismatches.count == 1);
  CHECK(mismatches.first.at(0).index == 877);
}

TEST_CASE("HostCommunicator: faults strike the results of their rank in the check phase") {
  for (const std::string_view collective : kCollectives) {
    HostBackend backend(1, 2, "0", {parse_fault("flip:rank=1,index=7,bit=3")});
    backend.reserve(2, kBufferBytes);
    const Case of{collective, Dtype::float32, Redop::sum, 100, 1, false};
    const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
      const auto communicator = backend.connect(world, world);
      communicator->enter(Phase::timing);
      if (!CaseRunner(*communicator, of).run().empty()) return "struck too early; ";
      communicator->enter(Phase::check);
      const bool wrong = !CaseRunner(*communicator, of).run().empty();
      return wrong == (world.rank() == 1) ? "" : "not struck, or the wrong rank; ";
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("HostCommunicator: a rank that never comes is no hang once the job is aborted") {
  HostBackend backend(1, 2, "0");
  backend.reserve(2, 4096);
  const std::string complaints = run_threads(2, [&](Team& world) -> std::string {
    const auto communicator = backend.connect(world, world);
    if (world.rank() == 1) {
      dynamic_cast<ThreadTeam&>(world).abort();
      return {};
    }
    try {
      communicator->all_reduce(communicator->send_buffer().data(), communicator->recv_buffer().data(), 1, Dtype::int32,
                               Redop::sum);
    } catch (const Aborted&) {
      return {};
    }
    return "did not throw; ";
  });
  CHECK(complaints == "");
}
