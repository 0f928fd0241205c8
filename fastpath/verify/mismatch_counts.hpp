#pragma once
// Wrong elements that the kernels of the check have found, and the message about them.
#include <string>

namespace busbw::fastpath {

/// Wrong elements so far, in host memory. The elements of collectives that only move data are bytes. The kernels write
/// the values while the host reads them.
struct MismatchCounts {
  unsigned long long wrong = 0;  ///< number of wrong elements
  /// Index of the element that was counted first, plus 1. Not always the smallest index. 0: not written yet.
  unsigned long long first_found_plus_1 = 0;
};

/// Returns a message about the wrong elements that `reported_count` does not include yet, and adds their number to it.
/// Empty if there are no such elements. A kernel counts the first element before it writes the index, so the message
/// also waits for the index.
inline std::string take_mismatch_message(const MismatchCounts& counts, unsigned long long& reported_count, int rank,
                                         int ranks) {
  const unsigned long long wrong_count = __atomic_load_n(&counts.wrong, __ATOMIC_ACQUIRE);
  const unsigned long long first_found_plus_1 = __atomic_load_n(&counts.first_found_plus_1, __ATOMIC_ACQUIRE);
  if (wrong_count == reported_count || first_found_plus_1 == 0) return {};
  const unsigned long long new_count = wrong_count - reported_count;
  reported_count = wrong_count;
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " + std::to_string(new_count) +
         " elements of its results are wrong, the first one found is element " +
         std::to_string(first_found_plus_1 - 1) + "; set BUSBW_FASTPATH=off and report this";
}

}  // namespace busbw::fastpath
