// Times a bare loop of all-reduces on the host backend, for comparison with the engine's figure. Prints microseconds
// per operation.
//
//   bare_loop [RANKS [ITERATIONS [BYTES]]]      [default: 2 100000 8]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "rendezvous/team/local_job.hpp"

int main(int argc, char** argv) {
  using namespace busbw;
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const long iterations = argc > 2 ? std::atol(argv[2]) : 100000;
  const std::size_t count = argc > 3 ? std::atol(argv[3]) / sizeof(float) : 2;
  SharedMemoryBackend backend(/*processes=*/1, ranks, "bench");
  backend.reserve(ranks, count * sizeof(float));
  LocalJob job(ranks);
  double time_us = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto world = job.team(rank);
      const auto group = world->split(/*color=*/0);
      const auto communicator = backend.connect(*world, *group);
      const auto run_operations = [&](long operations) {
        for (long i = 0; i < operations; ++i)
          communicator->all_reduce(communicator->send_buffer().data(), communicator->recv_buffer().data(), count,
                                   Dtype::float32, Redop::sum);
      };
      run_operations(iterations / 10 + 1);  // warm-up
      world->barrier();
      const auto start = std::chrono::steady_clock::now();
      run_operations(iterations);
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      if (rank == 0) time_us = elapsed.count() / static_cast<double>(iterations);
      world->barrier();
    });
  for (std::thread& thread : threads) thread.join();
  fmt::print("{:.4f}\n", time_us);
}
