#include "fastpath/verify/mismatch_counts.hpp"

#include <doctest/doctest.h>

using namespace busbw::fastpath;

TEST_CASE("take_mismatch_message: reports the elements since the last message") {
  MismatchCounts counts{3, 1};
  unsigned long long reported = 0;
  CHECK(take_mismatch_message(counts, reported, 2, 4) ==
        "rank 2 of 4: 3 elements of its results are wrong, the first one found is element 0; set BUSBW_FASTPATH=off "
        "and report this");
  CHECK(take_mismatch_message(counts, reported, 2, 4).empty());
  counts.wrong = 5;
  CHECK(take_mismatch_message(counts, reported, 2, 4).find(": 2 elements ") != std::string::npos);
}

TEST_CASE("take_mismatch_message: waits for the index while a kernel has only counted the first element") {
  MismatchCounts counts{1, 0};
  unsigned long long reported = 0;
  CHECK(take_mismatch_message(counts, reported, 0, 2).empty());
  counts = {4, 8};
  CHECK(take_mismatch_message(counts, reported, 0, 2)
            .find(": 4 elements of its results are wrong, the first one found "
                  "is element 7;") != std::string::npos);
}
