// Reads the matrix file of alltoallv: one line per sending rank, one byte count per receiving rank.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "collectives/collective_settings.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"

namespace busbw {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 256 << 20;  // enough for 1,024 ranks with cells of 256 characters
constexpr std::uint64_t kAlignBytes = 16;  // nccl-tests rounds every cell down to a multiple of this

/// Parses one matrix cell, in bytes. `row` and `column` count from 0.
std::uint64_t parse_cell_bytes(const std::string& text, double scale, const std::string& path, std::size_t row,
                               std::size_t column) {
  const auto invalid_cell = [&](std::string_view reason) {
    return UsageError(fmt::format(
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE={}: row {} column {} is \"{}\": {}; allowed: byte counts of at least 0", path,
        row + 1, column + 1, printable_value(text), reason));
  };
  std::size_t parsed_length = 0;
  double value = 0;
  try {
    value = std::stod(text, &parsed_length);
  } catch (const std::exception&) {
    throw invalid_cell("not a number");
  }
  if (parsed_length != text.size() || !std::isfinite(value)) throw invalid_cell("not a number");
  if (value < 0) throw invalid_cell("negative");
  // Multiplies in long double, as nccl-tests does: a product just below a multiple of 16 must not be rounded up to it.
  const long double scaled = static_cast<long double>(value) * static_cast<long double>(scale);
  if (scaled >= static_cast<long double>(std::numeric_limits<std::int64_t>::max())) throw invalid_cell("too large");
  return static_cast<std::uint64_t>(scaled) / kAlignBytes * kAlignBytes;
}

}  // namespace

TrafficMatrix read_traffic_matrix(const std::string& path, double scale) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);
  if (!is_regular || std::filesystem::file_size(path, error) > kMaxFileBytes)
    throw UsageError(fmt::format("NCCL_TESTS_ALLTOALLV_MATRIX_FILE={}: {}; allowed: a text file of up to {} bytes",
                                 path, is_regular ? "the file is too large" : "no such file", kMaxFileBytes));
  std::ifstream file(path);
  if (!file)
    throw UsageError(
        fmt::format("NCCL_TESTS_ALLTOALLV_MATRIX_FILE={}: cannot read the file; check its permissions", path));
  TrafficMatrix matrix;
  std::size_t columns = 0;
  std::size_t rows = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::size_t column = 0;
    for (std::string cell; cells >> cell; ++column)
      matrix.bytes.push_back(parse_cell_bytes(cell, scale, path, rows, column));
    if (column == 0) continue;
    if (rows > 0 && column != columns)
      throw UsageError(
          fmt::format("NCCL_TESTS_ALLTOALLV_MATRIX_FILE={}: row {} has {} columns, earlier rows have {}; make all rows "
                      "equally long",
                      path, rows + 1, column, columns));
    columns = column;
    ++rows;
  }
  if (rows == 0)
    throw UsageError(
        fmt::format("NCCL_TESTS_ALLTOALLV_MATRIX_FILE={}: the file contains no numbers; write one row per rank", path));
  if (rows != columns)
    throw UsageError(fmt::format(
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE={}: {} rows and {} columns; the matrix must be square", path, rows, columns));
  matrix.ranks = static_cast<int>(rows);
  return matrix;
}

}  // namespace busbw
