#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fastpath/peers/scratch_budget.hpp"

using namespace busbw::fastpath;

namespace {

/// Claims this many bytes.
auto exactly(std::size_t bytes) {
  return [bytes](std::size_t) { return bytes; };
}

}  // namespace

TEST_CASE("Budget: a share is of one GPU, and given back when it ends") {
  ScratchBudget budget(100);
  std::size_t heard = 0;
  const auto hears = [&](std::size_t left_bytes) {
    heard = left_bytes;
    return std::size_t{0};
  };
  {
    const auto share = budget.reserve(0, exactly(70));
    CHECK(share.bytes() == 70);
    budget.reserve(0, hears);
    CHECK(heard == 30);
    budget.reserve(1, hears);
    CHECK(heard == 100);
  }
  budget.reserve(0, hears);
  CHECK(heard == 100);
}

TEST_CASE("Budget: nobody gets more than is left") {
  ScratchBudget budget(100);
  const auto first = budget.reserve(0, exactly(70));
  CHECK(budget.reserve(0, exactly(70)).bytes() == 30);
}

TEST_CASE("Budget: a share can be made smaller, not larger, and moves with its owner") {
  ScratchBudget budget(100);
  auto share = budget.reserve(0, exactly(60));
  share.shrink_to(80);
  CHECK(share.bytes() == 60);
  share.shrink_to(20);
  CHECK(share.bytes() == 20);
  ScratchBudget::Reservation owner = std::move(share);
  CHECK(owner.bytes() == 20);
  CHECK(share.bytes() == 0);  // NOLINT(bugprone-use-after-move): it has nothing left to give back
  const auto rest = budget.reserve(0, exactly(100));
  CHECK(rest.bytes() == 80);
  owner = ScratchBudget::Reservation();
  CHECK(budget.reserve(0, exactly(100)).bytes() == 20);
}

TEST_CASE("Budget: threads that claim at the same time never have more than there is") {
  constexpr std::size_t kBytes = 64;
  ScratchBudget budget(kBytes);
  std::atomic<std::size_t> held{0};
  std::atomic<bool> too_much{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        // As the fast path claims: a part of what it hears to be left.
        const auto share = budget.reserve(0, [](std::size_t left_bytes) { return left_bytes / 8 * 5; });
        if (held.fetch_add(share.bytes()) + share.bytes() > kBytes) too_much = true;
        std::this_thread::yield();
        held.fetch_sub(share.bytes());
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(too_much);
  CHECK(budget.reserve(0, exactly(kBytes)).bytes() == kBytes);
}
