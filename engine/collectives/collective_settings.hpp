#pragma once
// Settings that apply to single collectives only.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace busbw {

/// One number for each pair of a sending rank (row) and a receiving rank (column).
struct TrafficMatrix {
  int ranks = 0;
  std::vector<std::uint64_t> cells;  // in row-major order

  std::uint64_t cell(int from, int to) const { return cells[static_cast<std::size_t>(from) * ranks + to]; }
};

/// Reads a square matrix of whitespace-separated byte counts, multiplies it by `scale` and rounds down to 16 bytes.
/// Throws UsageError with file, row and column.
TrafficMatrix read_traffic_matrix(const std::string& path, double scale);
/// Reads a square matrix of whitespace-separated whole numbers of elements, for --skew file:PATH. Throws UsageError
/// like read_traffic_matrix.
TrafficMatrix read_count_matrix(const std::string& path);

/// NCCL_TESTS_ALLTOALLV_SPREAD. With 0, a rank sends equal amounts to all ranks. With 1, the amounts are in proportion
/// to the distance (receiver - sender) mod ranks. Values between them mix both.
struct DistanceSpread {
  double spread = 1.0;
};

/// NCCL_TESTS_ALLTOALLV_MATRIX_FILE: byte counts that are multiples of 16.
struct ByteMatrix {
  TrafficMatrix bytes;
  double scale = 1.0;           // NCCL_TESTS_ALLTOALLV_MATRIX_SCALE, already applied
  std::uint64_t buffer_bytes = 0;  // size of each buffer of a rank
};

/// --skew file:PATH: counts in elements.
struct CountMatrix {
  TrafficMatrix elements;
};

/// --skew zipf:S or hot:K: every rank sends the same amount, and each receiver gets a fixed share of it.
struct ReceiverShares {
  /// [rank]: sum of the shares of the ranks 0 to `rank`, in units of 2^-kShareBits (receiver_shares.hpp).
  std::vector<std::uint64_t> ends;
};

/// Distribution of alltoallv's data over pairs of ranks.
using TrafficPattern = std::variant<DistanceSpread, ByteMatrix, CountMatrix, ReceiverShares>;

struct AlltoallvSettings {
  TrafficPattern pattern;
  bool print_summary = false;  // NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY
};

/// Settings of one program's collective. Each setting has an effect on the named collectives only.
struct CollectiveSettings {
  AlltoallvSettings alltoallv;
  bool ping_pong = false;  // sendrecv measures half round trips between pairs instead of a ring
  int rma_contexts = 0;    // above 0: ranks write into each other's buffers (-H); see can_run_one_sided
};

}  // namespace busbw
