#include "backends/nccl/gpus/rank_gpus.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support_errors.hpp"

using namespace busbw;

namespace {

std::vector<Gpu> visible(int count) {
  std::vector<Gpu> gpus;
  for (int number = 0; number < count; ++number)
    gpus.push_back({number, "a GPU", "0000:0" + std::to_string(number) + ":00", {}});
  return gpus;
}

std::vector<int> numbers(const std::vector<Gpu>& gpus) {
  std::vector<int> all;
  for (const Gpu& gpu : gpus) all.push_back(gpu.number);
  return all;
}

std::optional<std::string> no_sharing(const char* variable) {
  return std::string(variable) == "CUDA_VISIBLE_DEVICES" ? std::optional<std::string>("0,9") : std::nullopt;
}

std::optional<std::string> sharing(const char* variable) {
  return std::string(variable) == "NCCL_MULTI_RANK_GPU_ENABLE" ? std::optional<std::string>("1") : std::nullopt;
}

}  // namespace

TEST_CASE("gpus_of_ranks: each rank has its own GPU, from the first device on") {
  CHECK(numbers(gpus_of_ranks(visible(8), {8, 8, 0}, no_sharing)) == std::vector{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(numbers(gpus_of_ranks(visible(8), {2, 2, 6}, sharing)) == std::vector{6, 7});
}

TEST_CASE("gpus_of_ranks: too few GPUs are refused, with the remedies") {
  const auto two_of_one = [] { gpus_of_ranks(visible(1), {2, 1, 0}, no_sharing); };
  check_names(sentence_of<EnvironmentError>(two_of_one),
              {"GPUs 0 to 1", "sees 1", "CUDA_VISIBLE_DEVICES=0,9 names 2", "-t, -g", "NCCL_MULTI_RANK_GPU_ENABLE=1"});
  CHECK_THROWS_AS(gpus_of_ranks(visible(4), {2, 2, 3}, no_sharing), EnvironmentError);
}

TEST_CASE("gpus_of_ranks: processes share the GPUs in turn if NCCL may") {
  CHECK(numbers(gpus_of_ranks(visible(1), {3, 1, 0}, sharing)) == std::vector{0, 0, 0});
  CHECK(numbers(gpus_of_ranks(visible(3), {4, 2, 2}, sharing)) == std::vector{2, 0, 1, 2});
  CHECK_THROWS_AS(gpus_of_ranks(visible(3), {1, 1, 3}, sharing), EnvironmentError);  // no such first device
}

TEST_CASE("gpus_of_ranks: threads of one process do not share a GPU, because their kernels may block each other") {
  CHECK_THROWS_AS(gpus_of_ranks(visible(1), {2, 2, 0}, sharing), EnvironmentError);
  CHECK_THROWS_AS(gpus_of_ranks(visible(2), {6, 3, 0}, sharing), EnvironmentError);
}

TEST_CASE("count_ranks_by_gpu: ranks that share a GPU share its memory") {
  CHECK(count_ranks_by_gpu(gpus_of_ranks(visible(3), {4, 2, 2}, sharing)) ==
        std::map<int, int>{{0, 1}, {1, 1}, {2, 2}});
}
