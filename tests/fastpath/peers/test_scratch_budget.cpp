#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fastpath/peers/scratch_budget.hpp"

using namespace busbw::fastpath;

namespace {

/// Reserves this many bytes.
auto exactly(std::size_t bytes) {
  return [bytes](std::size_t) { return bytes; };
}

}  // namespace

TEST_CASE("ScratchBudget: a reservation belongs to one GPU and is released by its destructor") {
  ScratchBudget budget(100);
  std::size_t heard = 0;
  const auto hears = [&](std::size_t unreserved_bytes) {
    heard = unreserved_bytes;
    return std::size_t{0};
  };
  {
    const auto reservation = budget.reserve(0, exactly(70));
    CHECK(reservation.bytes() == 70);
    budget.reserve(0, hears);
    CHECK(heard == 30);
    budget.reserve(1, hears);
    CHECK(heard == 100);
  }
  budget.reserve(0, hears);
  CHECK(heard == 100);
}

TEST_CASE("ScratchBudget: a reservation is limited to the bytes left") {
  ScratchBudget budget(100);
  const auto first = budget.reserve(0, exactly(70));
  CHECK(budget.reserve(0, exactly(70)).bytes() == 30);
}

TEST_CASE("ScratchBudget: a reservation can shrink but not grow, and can be moved") {
  ScratchBudget budget(100);
  auto reservation = budget.reserve(0, exactly(60));
  reservation.shrink_to(80);
  CHECK(reservation.bytes() == 60);
  reservation.shrink_to(20);
  CHECK(reservation.bytes() == 20);
  ScratchBudget::Reservation owner = std::move(reservation);
  CHECK(owner.bytes() == 20);
  CHECK(reservation.bytes() == 0);  // NOLINT(bugprone-use-after-move): it has nothing left to give back
  const auto rest = budget.reserve(0, exactly(100));
  CHECK(rest.bytes() == 80);
  owner = ScratchBudget::Reservation();
  CHECK(budget.reserve(0, exactly(100)).bytes() == 20);
}

TEST_CASE("ScratchBudget: concurrent reservations never exceed the budget") {
  constexpr std::size_t kBytes = 64;
  ScratchBudget budget(kBytes);
  std::atomic<std::size_t> held{0};
  std::atomic<bool> too_much{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        // Like the fast path, reserves a fraction of the bytes left.
        const auto reservation =
            budget.reserve(0, [](std::size_t unreserved_bytes) { return unreserved_bytes / 8 * 5; });
        if (held.fetch_add(reservation.bytes()) + reservation.bytes() > kBytes) too_much = true;
        std::this_thread::yield();
        held.fetch_sub(reservation.bytes());
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(too_much);
  CHECK(budget.reserve(0, exactly(kBytes)).bytes() == kBytes);
}
