#include "measure/reduce_ranks.hpp"

#include <doctest/doctest.h>

using namespace busbw;

namespace {

RankReport report(const std::vector<double>& iteration_s, double total_s) {
  return {.samples = {.iteration_s = iteration_s, .total_s = total_s, .issue_s = 0}, .findings = {}};
}

const std::vector<RankReport> kRanks{report({1, 5, 3}, 9), report({2, 2, 2}, 6), report({4, 1, 7}, 12),
                                     report({1, 1, 1}, 3)};

}  // namespace

TEST_CASE("combine_ranks: rank 0, mean, minimum and maximum of the ranks' times per operation") {
  CHECK(combine_ranks(kRanks, &Samples::total_s, 3, Average::rank0) == 3);
  CHECK(combine_ranks(kRanks, &Samples::total_s, 3, Average::mean) == doctest::Approx(2.5));
  CHECK(combine_ranks(kRanks, &Samples::total_s, 3, Average::min) == 1);
  CHECK(combine_ranks(kRanks, &Samples::total_s, 3, Average::max) == 4);
  CHECK(combine_ranks(kRanks, &Samples::total_s, 6, Average::max) == 2);
}

TEST_CASE("combine_ranks: of any total") {
  const std::vector<RankReport> ranks{{.samples = {.iteration_s = {}, .total_s = 9, .issue_s = 2}, .findings = {}},
                                      {.samples = {.iteration_s = {}, .total_s = 9, .issue_s = 6}, .findings = {}}};
  CHECK(combine_ranks(ranks, &Samples::issue_s, 2, Average::mean) == 2);
}

TEST_CASE("combine_ranks: the numbers of -a") {
  CHECK(static_cast<Average>(0) == Average::rank0);
  CHECK(static_cast<Average>(1) == Average::mean);
  CHECK(static_cast<Average>(2) == Average::min);
  CHECK(static_cast<Average>(3) == Average::max);
}

TEST_CASE("combine_ranks: with one rank all are the same") {
  const std::vector<RankReport> one{report({2}, 2)};
  for (const Average average : {Average::rank0, Average::mean, Average::min, Average::max})
    CHECK(combine_ranks(one, &Samples::total_s, 2, average) == 1);
}

TEST_CASE("last_rank_s: each iteration ends with its last rank") {
  CHECK(last_rank_s(kRanks) == std::vector<double>{4, 5, 7});
  CHECK(last_rank_s(std::span(kRanks).subspan(1, 1)) == kRanks[1].samples.iteration_s);
}

TEST_CASE("last_rank_of_process_s: the same for the ranks of each process") {
  CHECK(last_rank_of_process_s(kRanks, 2) == std::vector<std::vector<double>>{{2, 5, 3}, {4, 1, 7}});
  CHECK(last_rank_of_process_s(kRanks, 4) == std::vector<std::vector<double>>{{4, 5, 7}});
  CHECK(last_rank_of_process_s(kRanks, 1).size() == 4);
}
