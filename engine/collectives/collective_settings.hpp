#pragma once
// Settings that apply to single collectives only.
#include <cstdint>
#include <string>
#include <vector>

namespace busbw {

/// Bytes from each rank (row) to each rank (column), multiples of 16. Used by alltoallv.
struct TrafficMatrix {
  int ranks = 0;
  std::vector<std::uint64_t> bytes;  // in row-major order

  std::uint64_t sent_bytes(int from, int to) const { return bytes[static_cast<std::size_t>(from) * ranks + to]; }
};

/// Reads a square matrix of whitespace-separated byte counts, multiplies it by `scale` and rounds down to 16 bytes.
/// Throws UsageError with file, row and column.
TrafficMatrix read_traffic_matrix(const std::string& path, double scale);

/// NCCL_TESTS_ALLTOALLV_*: distribution of the data over pairs of ranks.
struct AlltoallvSettings {
  double spread = 1.0;   // _SPREAD: 0 uniform, 1 in proportion to the distance between rank numbers
  TrafficMatrix matrix;  // _MATRIX_FILE and _MATRIX_SCALE; ranks == 0 without a file
  double matrix_scale = 1.0;
  bool print_summary = false;  // _PRINT_SUMMARY
  std::uint64_t max_bytes = 0;  // with a matrix: size of a rank's buffers
};

/// Settings of all such collectives.
struct CollectiveSettings {
  AlltoallvSettings alltoallv;
  bool ping_pong = false;  // sendrecv measures half round trips between pairs instead of a ring
  bool one_sided = false;  // ranks write into each other's buffers (-H); see can_run_one_sided
};

}  // namespace busbw
