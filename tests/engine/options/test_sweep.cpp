#include "options/sweep.hpp"

#include "collectives/registry.hpp"
#include "support_options.hpp"
#include "support_random.hpp"

using namespace busbw;

namespace {

using Sizes = std::vector<std::uint64_t>;

Sweep sweep_of(const std::string& line, const std::string& collective, int ranks = 4) {
  const Options options = options_of(line, {}, collective);
  return plan_sweep(options.data, options.settings, *make_collective(collective, {}), ranks);
}

}  // namespace

TEST_CASE("sizes_between: by factor or by step, including the largest, as in nccl-tests") {
  CHECK(sizes_between(8, 64, 2, 1) == Sizes{8, 16, 32, 64});
  CHECK(sizes_between(8, 63, 2, 1) == Sizes{8, 16, 32});
  CHECK(sizes_between(8, 1000, 10, 1) == Sizes{8, 80, 800});
  CHECK(sizes_between(8, 20, 1, 4) == Sizes{8, 12, 16, 20});
  CHECK(sizes_between(8, 19, 1, 4) == Sizes{8, 12, 16});
  CHECK(sizes_between(8, 8, 2, 1) == Sizes{8});
  CHECK(sizes_between(8, 8, 1, 100) == Sizes{8});
  CHECK(sizes_between(9, 8, 2, 1).empty());
}

TEST_CASE("sizes_between: no sum or product overflows") {
  constexpr std::uint64_t kTop = UINT64_MAX;
  CHECK(sizes_between(kTop - 1, kTop, 2, 1) == Sizes{kTop - 1});
  CHECK(sizes_between(kTop - 1, kTop, 1, 1) == Sizes{kTop - 1, kTop});
  CHECK(sizes_between(1, kTop, kTop, 1) == Sizes{1, kTop});
  CHECK(sizes_between(8, kTop, 1, kTop - 10) == Sizes{8, kTop - 2});
  CHECK(sizes_between(1, 100, 1, kTop) == Sizes{1});
  CHECK(sizes_between(1, kTop, 2, 1).size() == 64);
}

TEST_CASE("sizes_between: agrees with nccl-tests' loop") {
  Random random(9);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t min = 1 + random.below(1000);
    const std::uint64_t max = min + random.below(100'000);
    const std::uint64_t factor = 1 + random.below(4);
    const std::uint64_t step = 1 + random.below(5000);
    Sizes expected;
    for (std::uint64_t size = min; size <= max; size = factor > 1 ? size * factor : size + step)
      expected.push_back(size);
    REQUIRE(sizes_between(min, max, factor, step) == expected);
  }
}

TEST_CASE("plan_sweep: types, then operators, then roots, as in nccl-tests") {
  const Sweep sweep = sweep_of("-t 4 -d all -o all -r all", "reduce", 3);
  REQUIRE(sweep.configurations.size() == 12 * 6 * 3);
  std::size_t i = 0;
  for (const Dtype dtype : kDtypes)
    for (const Redop redop : kRedops)
      for (int root = 0; root < 3; ++root, ++i) {
        CHECK(sweep.configurations[i].dtype == dtype);
        CHECK(sweep.configurations[i].redop == redop);
        CHECK(sweep.configurations[i].redop_name == name(redop));
        CHECK(sweep.configurations[i].root == root);
      }
}

TEST_CASE("plan_sweep: operators and roots only if the collective has them") {
  const auto configurations = [](const std::string& collective) {
    return sweep_of("-t 4 -o all -r 2", collective).configurations;
  };
  for (const char* name : {"all_reduce", "reduce", "reduce_scatter", "sendrecv"})
    CHECK(configurations(name).size() == 6);
  for (const char* name : {"all_gather", "broadcast", "alltoall", "alltoallv", "gather", "scatter", "hypercube"}) {
    REQUIRE(configurations(name).size() == 1);
    CHECK(configurations(name)[0].redop_name == (std::string(name) == "hypercube" ? "" : "none"));
  }
  for (const CollectiveEntry& entry : all_collectives()) {
    const bool rooted = make_collective(entry.name, {})->has_root();
    CHECK(configurations(std::string(entry.name))[0].root == (rooted ? 2 : -1));
  }
  CHECK(configurations("sendrecv")[2].redop_name == "max");
}

TEST_CASE("plan_sweep: sizes by range or by list, and the cycles") {
  CHECK(sweep_of("-b 8 -e 64 -f 2", "all_reduce").sizes_bytes == Sizes{8, 16, 32, 64});
  CHECK(sweep_of("-b 8 -e 3M", "all_reduce").sizes_bytes == Sizes{8, 8 + (1 << 20), 8 + (2 << 20)});
  CHECK(sweep_of("--sizes 7M,1K,3000,1K", "all_reduce").sizes_bytes == Sizes{7 << 20, 1024, 3000, 1024});
  CHECK(sweep_of("-N 0", "all_reduce").cycles == 0);
  CHECK(sweep_of("-N 5", "all_reduce").cycles == 5);
}
