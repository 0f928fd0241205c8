#include "run/memory_plan.hpp"

#include <limits>

#include "measure/buffers.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

RunSettings sizes_to_plan(std::uint64_t min_bytes, std::uint64_t max_bytes, int unalign = 0) {
  RunSettings result;
  result.min_bytes = min_bytes;
  result.max_bytes = max_bytes;
  result.unalign_elements = unalign;
  return result;
}

constexpr std::uint64_t kMebibyte = 1 << 20;

/// Free memory of which 90 % are exactly `bytes`.
std::size_t free_for(double bytes) { return static_cast<std::size_t>(bytes / 0.9) + 2; }

}  // namespace

TEST_CASE("plan_memory: a size that fits stays unchanged, without a note") {
  const double needed = 2.0 * 4 * static_cast<double>(buffer_bytes(64 * kMebibyte, 3)) + 5e6;
  const MemoryPlan plan = plan_memory(sizes_to_plan(8, 64 * kMebibyte, 3), 4, free_for(needed), 5'000'000);
  CHECK(plan.max_bytes == 64 * kMebibyte);
  CHECK(plan.notes.empty());
}

TEST_CASE("plan_memory: one missing page reduces the largest size, with a note on both sizes") {
  const double needed = 2.0 * 4 * static_cast<double>(buffer_bytes(64 * kMebibyte, 0));
  const MemoryPlan plan = plan_memory(sizes_to_plan(8, 64 * kMebibyte), 4, free_for(needed - 10), 0);
  CHECK(plan.max_bytes == 64 * kMebibyte - 4096);
  REQUIRE(plan.notes.size() == 2);
  CHECK(plan.notes[0] == "Reducing maxBytes to " + std::to_string(plan.max_bytes) + " due to memory limitation");
  check_names(plan.notes[1], {"64 MiB", "4 ranks", "512"});
}

TEST_CASE("plan_memory: a reduced plan fits for all ranks, work areas and shifts") {
  for (const int ranks : {1, 2, 7, 64})
    for (const int unalign : {0, 1, 1000})
      for (const std::size_t work : {std::size_t{0}, std::size_t{3'000'000}})
        for (const std::size_t available : {std::size_t{100} * kMebibyte, std::size_t{1001} * kMebibyte}) {
          const MemoryPlan plan =
              plan_memory(sizes_to_plan(8, std::uint64_t{1} << 40, unalign), ranks, available, work);
          const double used =
              2.0 * ranks * static_cast<double>(buffer_bytes(plan.max_bytes, unalign)) + static_cast<double>(work);
          CHECK(used <= 0.9 * static_cast<double>(available));
          CHECK(plan.max_bytes >= 8);
          CHECK(plan.max_bytes % 4096 == 0);
        }
}

TEST_CASE(
    "plan_memory: if even the smallest size does not fit, the error gives the figures and the largest size that fits") {
  const std::string sentence = sentence_of<EnvironmentError>(
      [] { plan_memory(sizes_to_plan(32 * kMebibyte, 32 * kMebibyte), 4, 100 * kMebibyte, 0); });
  check_names(sentence, {"32 MiB", "4 ranks", "256", "100 MiB", "90 MiB", "up to 11.", "-e"});
}

TEST_CASE("plan_memory: the error names the device with the least memory") {
  const std::string sentence = sentence_of<EnvironmentError>([&] {
    plan_memory(sizes_to_plan(32 * kMebibyte, 32 * kMebibyte), 4, 100 * kMebibyte, 0,
                "GPU 2 (0000:0f:00), which has the least");
  });
  check_names(sentence, {"100 MiB free memory (counted by GPU 2 (0000:0f:00), which has the least)"});
}

TEST_CASE("plan_memory: no memory, and work areas that exceed it, are errors") {
  sentence_of<EnvironmentError>([] { plan_memory(sizes_to_plan(8, 8), 1, 0, 0); });
  sentence_of<EnvironmentError>([] { plan_memory(sizes_to_plan(8, 8), 1, kMebibyte, 100 * kMebibyte); });
}

TEST_CASE("limit_plan: less memory in another process is noted like in this one") {
  const MemoryPlan own{64 * kMebibyte, {"reduced for a reason of its own"}};
  CHECK(limit_plan(own, 64 * kMebibyte).notes == own.notes);
  CHECK(limit_plan(own, 65 * kMebibyte).max_bytes == 64 * kMebibyte);
  const MemoryPlan less = limit_plan(own, kMebibyte);
  CHECK(less.max_bytes == kMebibyte);
  CHECK(less.notes == std::vector<std::string>{"Reducing maxBytes to 1048576 due to memory limitation",
                                               "another process does not have memory for more"});
}

TEST_CASE("plan_memory: a list of sizes is never reduced") {
  RunSettings listed = sizes_to_plan(8, 64 * kMebibyte);
  listed.sizes_bytes = {8, 64 * kMebibyte};
  check_names(sentence_of<EnvironmentError>([&] { plan_memory(listed, 4, 100 * kMebibyte, 0); }), {"--sizes"});
}

TEST_CASE("plan_memory: errors show sizes beyond all memory correctly") {
  const std::string sentence = sentence_of<EnvironmentError>(
      [] { plan_memory(sizes_to_plan(std::uint64_t{1} << 62, std::uint64_t{1} << 62), 1024, kMebibyte, 0); });
  check_names(sentence, {"4 EiB", "16 EiB"});  // the largest size that is printed
}

TEST_CASE("require_sample_memory: -W near the largest int is refused, and its flag is named with one that fits") {
  RunSettings lifecycle;
  lifecycle.iterations = 1;
  lifecycle.lifecycle.emplace().work_iterations = std::numeric_limits<int>::max();
  const auto refusal = [&] {
    return sentence_of<EnvironmentError>([&] { require_sample_memory(lifecycle, 2, 100 * kMebibyte); });
  };
  check_names(refusal(), {"-W 2147483647 (--work-iterations)", "2 ranks", "use -W up to 280", "fewer ranks"});
  lifecycle.iterations = std::numeric_limits<int>::max();
  check_names(refusal(), {"-W 2147483647 (--work-iterations)", "use a smaller -W, fewer iterations (-i)"});
  lifecycle.lifecycle->work_iterations = 2;
  check_names(refusal(), {"-i 2147483647 (--iterations)", "up to 46811 iterations"});
  lifecycle.iterations = 46811;
  require_sample_memory(lifecycle, 2, 100 * kMebibyte);
}
