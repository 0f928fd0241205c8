#include "output/run_outcome.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("the average must reach nine tenths of the required busbw") {
  RunEnd end;
  CHECK(meets_min_busbw(end));
  end.min_busbw_bytes_per_s = 10e9;
  CHECK_FALSE(meets_min_busbw(end));  // no rows, so the bandwidth is unknown
  end.average_busbw_bytes_per_s = 9e9;
  CHECK(meets_min_busbw(end));
  end.average_busbw_bytes_per_s = 8.99e9;
  CHECK_FALSE(meets_min_busbw(end));
}

TEST_CASE("wrong or slow runs are complete; other failed runs ended early") {
  RunEnd end;
  for (const ExitCode whole : {ExitCode::good, ExitCode::wrong_data, ExitCode::slower_than_demanded}) {
    end.exit_code = static_cast<int>(whole);
    CHECK_FALSE(ended_early(end));
  }
  for (const ExitCode early :
       {ExitCode::environment, ExitCode::rank_lost, ExitCode::interrupted, ExitCode::terminated}) {
    end.exit_code = static_cast<int>(early);
    CHECK(ended_early(end));
  }
}
