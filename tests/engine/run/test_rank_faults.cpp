#include "run/rank_faults.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <regex>
#include <string>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "output/golden.hpp"
#include "support_ranks.hpp"

using namespace busbw;

namespace {

/// Runs `body` in a forked process. Returns its wait status, or 0 with `alive` set if it still runs after `limit_ms`.
template <class Body>
int status_of_child(Body body, int limit_ms, bool& alive) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  for (int waited_ms = 0; waited_ms < limit_ms; waited_ms += 5) {
    if (waitpid(child, &status, WNOHANG) == child) {
      alive = false;
      return status;
    }
    usleep(5000);
  }
  alive = true;
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return 0;
}

/// One rank with 64-byte results of an all-reduce in its receive buffer.
struct OneRank {
  OneRank() {
    backend.reserve(1, 128);
    communicator = backend.connect(*teams[0], *teams[0]);
  }
  /// Applies a fault and returns the first 65 bytes of the receive buffer, which were zero before.
  std::string corrupted(const char* fault, const Collective& of, int root, Dtype dtype = Dtype::int32) {
    std::byte* const recv = communicator->recv_buffer().data();
    std::fill_n(recv, 65, std::byte{0});
    const Shape shape = of.shape(64 / size_bytes(dtype), size_bytes(dtype), 1);
    corrupt_result(parse_fault(fault), *communicator, {of, shape, dtype, Redop::sum, root, 1}, recv);
    return {reinterpret_cast<const char*>(recv), 65};
  }
  std::vector<std::unique_ptr<ThreadTeam>> teams = ThreadTeam::make(1);
  SharedMemoryBackend backend{1, 1, "0"};
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Collective> all_reduce = make_collective("all_reduce", {});
};

}  // namespace

TEST_CASE("make_faulty_team: the rank dies or hangs in the named phase only") {
  const auto teams = ThreadTeam::make(1);
  const auto dying = make_faulty_team(*teams[0], parse_fault("die:rank=0,phase=warmup"));
  const auto hanging = make_faulty_team(*teams[0], parse_fault("hang:rank=0,phase=timing"));
  dying->enter(Phase::timing);
  hanging->enter(Phase::warmup);
  make_faulty_team(*teams[0], parse_fault("overrun:rank=0"))->enter(Phase::timing);
  bool alive = false;
  const int status = status_of_child([&] { dying->enter(Phase::warmup); }, 5000, alive);
  CHECK_FALSE(alive);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  status_of_child([&] { hanging->enter(Phase::timing); }, 100, alive);
  CHECK(alive);
}

TEST_CASE("corrupt_result: a flip changes one bit of one element, and none outside the result") {
  OneRank rank;
  std::string expected(65, '\0');
  for (const char* outside : {"flip:rank=0,index=16,bit=9", "flip:rank=0,index=2,bit=32", "die:rank=0,phase=check"})
    CHECK(rank.corrupted(outside, *rank.all_reduce, 0) == expected);
  expected[9] = 2;
  CHECK(rank.corrupted("flip:rank=0,index=2,bit=9", *rank.all_reduce, 0) == expected);
}

TEST_CASE("corrupt_result: an overrun changes the byte after the result, if the rank has a result") {
  OneRank rank;
  std::string expected(65, '\0');
  // Rank 0 receives nothing, because rank 1 is the root.
  CHECK(rank.corrupted("overrun:rank=0", *make_collective("reduce", {}), 1) == expected);
  expected[64] = '\xff';
  CHECK(rank.corrupted("overrun:rank=0", *rank.all_reduce, 0) == expected);
}

TEST_CASE("make_delayed_collective: sleeps before each operation, and forwards everything else") {
  OneRank rank;
  const auto delayed = make_delayed_collective(*rank.all_reduce, 20'000);
  std::byte* const recv = rank.communicator->recv_buffer().data();
  *rank.communicator->send_buffer().data() = std::byte{7};
  const auto start = std::chrono::steady_clock::now();
  delayed->run(*rank.communicator, {rank.communicator->send_buffer().data(), recv, 1, Dtype::uint8, Redop::sum, 0});
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
  CHECK(*recv == std::byte{7});

  const std::string source = BUSBW_TEST_DIR "/../engine/";
  const std::string decorator = test::read_file(source + "collectives/forwarding_collective.hpp");
  const std::string interface = test::read_file(source + "collectives/collective.hpp");
  static const std::regex kVirtual(R"(\n  virtual [^~(\n]*?(\w+)\()");
  for (std::sregex_iterator found(interface.begin(), interface.end(), kVirtual), end; found != end; ++found) {
    if ((*found)[1] == "run") continue;  // the decorator itself, which the compiler demands
    CAPTURE((*found)[1]);
    CHECK(decorator.find("inner_." + (*found)[1].str() + "(") != std::string::npos);
  }
}
