#pragma once
// What single collectives can be told, beyond what all of them share.
#include <cstdint>
#include <string>
#include <vector>

namespace busbw {

/// Bytes from each rank (row) to each rank (column), multiples of 16.
struct TrafficMatrix {
  int ranks = 0;
  std::vector<std::uint64_t> bytes;  // row by row

  std::uint64_t at(int from, int to) const { return bytes[static_cast<std::size_t>(from) * ranks + to]; }
};

/// Reads a square matrix of whitespace-separated byte counts, multiplies by `scale`, rounds down to 16 bytes.
/// Throws UsageError naming file, row and column.
TrafficMatrix read_traffic_matrix(const std::string& path, double scale);

/// NCCL_TESTS_ALLTOALLV_*: who sends how much to whom.
struct AlltoallvSettings {
  double spread = 1.0;   // _SPREAD: 0 uniform, 1 in proportion to the distance between rank numbers
  TrafficMatrix matrix;  // _MATRIX_FILE and _MATRIX_SCALE; ranks == 0 without
  double matrix_scale = 1.0;
  bool print_summary = false;  // _PRINT_SUMMARY
  std::uint64_t max_bytes = 0;  // with a matrix: what a rank's buffers hold
};

struct CollectiveSettings {
  AlltoallvSettings alltoallv;
  bool ping_pong = false;  // sendrecv measures half round trips between pairs instead of a ring
};

}  // namespace busbw
