#include "output/run_outcome.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("the average must reach nine tenths of what was demanded") {
  RunEnd end;
  CHECK(fast_enough(end));
  end.min_busbw_bytes_per_s = 10e9;
  CHECK_FALSE(fast_enough(end));  // no row, no proof
  end.average_busbw_bytes_per_s = 9e9;
  CHECK(fast_enough(end));
  end.average_busbw_bytes_per_s = 8.99e9;
  CHECK_FALSE(fast_enough(end));
}

TEST_CASE("wrong or slow runs are whole runs; the others ended early") {
  RunEnd end;
  for (const Exit whole : {Exit::good, Exit::wrong_data, Exit::slower_than_demanded}) {
    end.exit_code = static_cast<int>(whole);
    CHECK_FALSE(ended_early(end));
  }
  for (const Exit early : {Exit::environment, Exit::rank_lost, Exit::interrupted, Exit::terminated}) {
    end.exit_code = static_cast<int>(early);
    CHECK(ended_early(end));
  }
}
