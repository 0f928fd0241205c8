// Measures the check of results: compares 1 GiB of float sums per rank at 4 ranks, and reads the same memory.
// Prints GB/s (1e9 bytes per second, all ranks together) for reading, comparing and filling; best of five rounds each.
//
//   check_speed [BYTES]      bytes per rank [default: 1 GiB]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "verify/host_data.hpp"
#include "verify/reduction_values.hpp"

namespace {

constexpr int kRanks = 4;
constexpr int kRounds = 5;

/// Runs `work` on all ranks at the same time and returns the best speed over the rounds. `bytes`: of all ranks
/// together.
double best_gbps(std::size_t bytes, const std::function<void(int rank)>& work) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / 1e9 / elapsed.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace busbw;
  const std::size_t elements = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1ULL << 30) / sizeof(float);
  std::vector<std::vector<float>> memory(kRanks, std::vector<float>(elements));
  const ReductionValues values(Dtype::float32, Redop::sum, kRanks);
  const DataStream expected = values.reduced(1);
  const std::size_t bytes = kRanks * elements * sizeof(float);

  const auto bytes_of = [&](int rank) { return reinterpret_cast<std::byte*>(memory[rank].data()); };
  const double fill_gbps =
      best_gbps(bytes, [&](int rank) { fill_host(bytes_of(rank), expected, /*first=*/0, elements); });
  std::vector<std::uint64_t> sums(kRanks);
  const double read_gbps = best_gbps(bytes, [&](int rank) {
    const auto* pairs = reinterpret_cast<const std::uint64_t*>(memory[rank].data());  // two floats each
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < elements / 2; ++i) sum += pairs[i];
    sums[rank] = sum;  // printed below, so that the compiler does not remove the loop
  });
  std::vector<Mismatches> mismatches(kRanks);
  const double compare_gbps = best_gbps(bytes, [&](int rank) {
    compare_host(bytes_of(rank), expected, /*first=*/0, elements, /*index_base=*/0, mismatches[rank]);
  });
  std::uint64_t wrong = 0;
  for (const Mismatches& rank_mismatches : mismatches) wrong += rank_mismatches.count;
  fmt::print("{{\"read_gbps\": {:.2f}, \"compare_gbps\": {:.2f}, \"fill_gbps\": {:.2f}, \"wrong\": {}, \"sum\": {}}}\n",
             read_gbps, compare_gbps, fill_gbps, wrong, sums[0] % 10);
}
