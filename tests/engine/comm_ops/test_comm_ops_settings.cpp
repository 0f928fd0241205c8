#include "comm_ops/comm_ops_settings.hpp"

#include <doctest/doctest.h>

using namespace busbw;

namespace {

std::vector<int> counts(int begin, int end, const char* sweep) {
  CommOpsSettings settings;
  settings.begin_ranks = begin;
  settings.end_ranks = end;
  settings.sweep = *parse_rank_step(sweep);
  return rank_counts(settings);
}

}  // namespace

TEST_CASE("comm_ops: a sweep falls or rises, and always by at least one rank") {
  CHECK(counts(8, 1, "factor-2") == std::vector{8, 4, 2, 1});
  CHECK(counts(8, 1, "factor-0.5") == std::vector{8, 4, 2, 1});
  CHECK(counts(1, 8, "factor-2") == std::vector{1, 2, 4, 8});
  CHECK(counts(2, 7, "step-2") == std::vector{2, 4, 6});
  CHECK(counts(7, 2, "step-2") == std::vector{7, 5, 3});
  CHECK(counts(4, 1, "factor-1") == std::vector{4, 3, 2, 1});
  CHECK(counts(1, 3, "factor-1.1") == std::vector{1, 2, 3});
  CHECK(counts(5, 5, "factor-2") == std::vector{5});
  CHECK(counts(5, 1, "fixed") == std::vector{5});
  CHECK(counts(8, 1, "step-1000000000000") == std::vector{8});
}

TEST_CASE("comm_ops: other rules for ranks are refused") {
  for (const char* text : {"", "2", "factor", "factor-", "factor-0", "factor--2", "step-0", "step-x", "fixed-1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_rank_step(text));
  }
}

TEST_CASE("comm_ops: a rank is kept exactly if nccl-tests gives it color 0") {
  for (const char* rule :
       {"factor-1", "factor-1.5", "factor-2", "factor-3", "factor-100", "step-1", "step-2.5", "step-9"})
    for (int ranks = 1; ranks <= 9; ++ranks) {
      CAPTURE(rule);
      CAPTURE(ranks);
      const RankStep resize = *parse_rank_step(rule);
      int color_zero = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const double limit = resize.kind == RankStep::Kind::factor ? ranks / resize.number : ranks - resize.number;
        color_zero += rank < limit;
      }
      CHECK(kept_ranks(resize, ranks) == color_zero);
      const bool divides = color_zero > 0 && color_zero < ranks;
      CHECK(can_run(CreationKind::split, resize, ranks) == divides);
      CHECK(can_run(CreationKind::init, resize, ranks));
    }
}

TEST_CASE("comm_ops: one root, or one for every so many ranks") {
  CHECK(root_count(0, 1000) == 1);
  CHECK(root_count(4, 8) == 2);
  CHECK(root_count(4, 9) == 3);
  CHECK(root_count(1, 5) == 5);
  CHECK(root_count(100, 5) == 1);
}
