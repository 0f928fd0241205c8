#include "measure/combine_ranks.hpp"

#include <doctest/doctest.h>

using namespace busbw;

namespace {

RankReport report(const std::vector<double>& iteration_s, double total_s) {
  return {
      .samples = {.operation_s = iteration_s, .total = {.elapsed_s = total_s, .issue_s = total_s / 3, .operations = 3}},
      .check_result = {}};
}

const std::vector<RankReport> kReports{report({1, 5, 3}, 9), report({2, 2, 2}, 6), report({4, 1, 7}, 12),
                                       report({1, 1, 1}, 3)};

/// First iteration and duration of a rank.
RankReport on_device(double first_s, double duration_s) {
  return {.samples = {.operation_s = {first_s, duration_s},
                      .first_iteration_s = first_s,
                      .device_s = 2 * duration_s,
                      .device_operations = 2},
          .check_result = {}};
}

}  // namespace

TEST_CASE("combine_ranks: rank 0, mean, minimum and maximum of the ranks' times") {
  const std::vector<double> times_s{3, 2, 4, 1};
  CHECK(combine_ranks(times_s, RankAverage::rank0) == 3);
  CHECK(combine_ranks(times_s, RankAverage::mean) == doctest::Approx(2.5));
  CHECK(combine_ranks(times_s, RankAverage::min) == 1);
  CHECK(combine_ranks(times_s, RankAverage::max) == 4);
}

TEST_CASE("combine_ranks: the numbers of -a") {
  CHECK(static_cast<RankAverage>(0) == RankAverage::rank0);
  CHECK(static_cast<RankAverage>(1) == RankAverage::mean);
  CHECK(static_cast<RankAverage>(2) == RankAverage::min);
  CHECK(static_cast<RankAverage>(3) == RankAverage::max);
}

TEST_CASE("rank_times_s: totals divided by the number of operations") {
  CHECK(rank_times_s(kReports) == std::vector<double>{3, 2, 4, 1});
  CHECK(rank_launch_times_s(kReports)[2] == doctest::Approx(4.0 / 3));
}

TEST_CASE("rank_device_times_s: empty if a rank has none") {
  CHECK(rank_device_times_s(kReports).empty());
  CHECK(rank_device_times_s(std::vector{on_device(9, 2), on_device(9, 3)}) == std::vector<double>{2, 3});
  CHECK(rank_device_times_s(std::vector{on_device(9, 2), kReports[0]}).empty());
}

TEST_CASE("first_arrivals: the rank that waited longest arrived first") {
  // Rank 1 arrived 5 s after rank 0. Rank 2 takes longer but arrived with rank 0.
  const std::vector<RankReport> ranks{on_device(7, 2), on_device(2, 2), on_device(8, 3)};
  CHECK(first_arrivals(ranks, 1).arrivals_s == std::vector<double>{0, 5, 0});
  const std::vector<RankReport> tens{on_device(70, 2), on_device(20, 2), on_device(80, 3)};
  CHECK(first_arrivals(tens, 10).arrivals_s == std::vector<double>{0, 50, 0});
  CHECK(first_arrivals(kReports, 1).arrivals_s.empty());
  std::vector<RankReport> together = ranks;
  together[1].samples.first_iteration_s.reset();
  CHECK(first_arrivals(together, 1).arrivals_s.empty());
}

TEST_CASE("typical_arrivals: delays after the smallest one, with their intervals") {
  const auto delayed = [](double median_s, std::optional<std::pair<double, double>> bounds_s) {
    return RankReport{.samples = {.start_delay = StartDelay{median_s, bounds_s}}, .check_result = {}};
  };
  const std::vector<RankReport> ranks{delayed(3, {{2, 4}}), delayed(1, {{0, 2}}), delayed(9, {{8, 11}})};
  CHECK(typical_arrivals(ranks).arrivals_s == std::vector<double>{2, 0, 8});
  CHECK(typical_arrivals(ranks).bounds_s == std::vector<std::pair<double, double>>{{1, 3}, {-1, 1}, {7, 10}});
  const std::vector<RankReport> few{delayed(3, std::nullopt), delayed(1, {{0, 2}})};
  CHECK(typical_arrivals(few).arrivals_s == std::vector<double>{2, 0});
  CHECK(typical_arrivals(few).bounds_s.empty());
  CHECK(typical_arrivals(kReports).arrivals_s.empty());
}

TEST_CASE("last_rank_s: each iteration ends with its last rank") {
  CHECK(last_rank_s(kReports) == std::vector<double>{4, 5, 7});
  CHECK(last_rank_s(std::span(kReports).subspan(1, 1)) == kReports[1].samples.operation_s);
}

TEST_CASE("last_rank_of_process_s: the same for the ranks of each process") {
  CHECK(last_rank_of_process_s(kReports, 2) == std::vector<std::vector<double>>{{2, 5, 3}, {4, 1, 7}});
  CHECK(last_rank_of_process_s(kReports, 4) == std::vector<std::vector<double>>{{4, 5, 7}});
  CHECK(last_rank_of_process_s(kReports, 1).size() == 4);
}
