#include "rendezvous/backoff.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace busbw;

namespace {

std::vector<int> times_of(int process, bool is_first, int ticks) {
  Backoff backoff(process, is_first, ticks);
  std::vector<int> times;
  for (int tick = 0; tick < ticks; ++tick)
    if (backoff.start_if_due(tick)) times.push_back(tick);
  return times;
}

}  // namespace

TEST_CASE("Backoff: at once, then at intervals of 1 s to 5 s") {
  for (int process = 0; process < 1000; ++process) {
    const std::vector<int> times = times_of(process, true, 600);
    CAPTURE(process);
    REQUIRE(times.size() >= 14);
    CHECK(times.size() <= 20);
    CHECK(times.front() == 0);
    for (std::size_t i = 1; i < times.size(); ++i) {
      CHECK(times[i] - times[i - 1] >= kTicksPerS);
      CHECK(times[i] - times[i - 1] <= 5 * kTicksPerS);
    }
    CHECK(times_of(process, false, 600).front() >= kTicksPerS);
  }
}

TEST_CASE("Backoff: a short limit still has several requests") {
  CHECK(times_of(7, true, kTicksPerS).size() >= 3);
  CHECK(times_of(7, true, 1).size() == 1);
}

TEST_CASE("Backoff: requests of different processes spread in time") {
  std::set<int> last_times;
  for (int process = 0; process < 1000; ++process) last_times.insert(times_of(process, true, 200).back());
  CHECK(last_times.size() > 20);
}
