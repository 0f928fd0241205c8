// Reads the matrix files of alltoallv: one line per sending rank, one number per receiving rank.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "collectives/collective_settings.hpp"
#include "common/support/error.hpp"
#include "common/support/printable.hpp"
#include "common/values/quantity.hpp"

namespace busbw {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 256 << 20;  // enough for 1,024 ranks with cells of 256 characters
constexpr std::uint64_t kAlignBytes = 16;  // nccl-tests rounds every cell down to a multiple of this

constexpr std::string_view kBytesSource = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE=";
constexpr std::string_view kCountsSource = "--skew file:";
/// Maximum count of a pair of ranks. Sums over 2^15 ranks of 8-byte elements fit into 64 bits.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 44;

/// Thrown by the parsers of cells. Has the reason why a cell is invalid.
struct InvalidCell {
  const char* reason;
};

/// Parses a byte count and multiplies it by `scale`.
std::uint64_t parse_cell_bytes(const std::string& text, double scale) {
  std::size_t parsed_length = 0;
  double value = 0;
  try {
    value = std::stod(text, &parsed_length);
  } catch (const std::exception&) {
    throw InvalidCell{"not a number"};
  }
  if (parsed_length != text.size() || !std::isfinite(value)) throw InvalidCell{"not a number"};
  if (value < 0) throw InvalidCell{"negative"};
  // Multiplies in long double, as nccl-tests does: a product just below a multiple of 16 must not be rounded up to it.
  const long double scaled = static_cast<long double>(value) * static_cast<long double>(scale);
  if (scaled >= static_cast<long double>(std::numeric_limits<std::int64_t>::max())) throw InvalidCell{"too large"};
  return static_cast<std::uint64_t>(scaled) / kAlignBytes * kAlignBytes;
}

std::uint64_t parse_cell_count(const std::string& text) {
  const bool is_negative = text.size() > 1 && text.front() == '-';
  const std::string digits = text.substr(is_negative ? 1 : 0);
  if (digits.find_first_not_of("0123456789") != std::string::npos) throw InvalidCell{"not a whole number"};
  if (is_negative) throw InvalidCell{"negative"};
  const auto count = parse_digits(digits);
  if (!count || *count > kMaxCount) throw InvalidCell{"too large"};
  return *count;
}

/// Opens a text file. Throws UsageError, which begins with `source`, if it cannot be read or is too large.
std::ifstream open_matrix_file(const std::string& path, std::string_view source) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const auto refuse_unless = [&](bool is_allowed, const char* problem) {
    if (!is_allowed)
      throw UsageError(
          fmt::format("{}{}: {}; allowed: a text file of up to {} bytes", source, path, problem, kMaxFileBytes));
  };
  refuse_unless(std::filesystem::exists(status), "no such file");
  refuse_unless(std::filesystem::is_regular_file(status), "not a regular file");
  refuse_unless(std::filesystem::file_size(path, error) <= kMaxFileBytes, "the file is too large");
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("{}{}: cannot read the file; check its permissions", source, path));
  return file;
}

/// Reads a square matrix. In errors, `source` is the option or variable before the path, and `cell_kind` names the
/// allowed cells ("byte counts").
template <class ParseCell>
TrafficMatrix read_matrix(const std::string& path, std::string_view source, std::string_view cell_kind,
                          const ParseCell& parse_cell) {
  const auto invalid_file = [&](const std::string& problem) {
    return UsageError(fmt::format("{}{}: {}", source, path, problem));
  };
  std::ifstream file = open_matrix_file(path, source);
  TrafficMatrix matrix;
  std::size_t columns = 0;
  std::size_t rows = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::size_t row_columns = 0;
    for (std::string cell; cells >> cell; ++row_columns) {
      try {
        matrix.cells.push_back(parse_cell(cell));
      } catch (const InvalidCell& invalid) {
        throw invalid_file(fmt::format("row {} column {} is \"{}\": {}; allowed: {} of at least 0", rows + 1,
                                       row_columns + 1, printable_value(cell), invalid.reason, cell_kind));
      }
    }
    const bool is_blank_line = row_columns == 0;
    if (is_blank_line) continue;
    if (rows > 0 && row_columns != columns)
      throw invalid_file(fmt::format("row {} has {} columns, earlier rows have {}; make all rows equally long",
                                     rows + 1, row_columns, columns));
    columns = row_columns;
    ++rows;
  }
  if (rows == 0) throw invalid_file("the file contains no numbers; write one row per rank");
  if (rows != columns)
    throw invalid_file(fmt::format("{} rows and {} columns; the matrix must be square", rows, columns));
  matrix.ranks = static_cast<int>(rows);
  return matrix;
}

}  // namespace

TrafficMatrix read_traffic_matrix(const std::string& path, double scale) {
  return read_matrix(path, kBytesSource, "byte counts",
                     [scale](const std::string& cell) { return parse_cell_bytes(cell, scale); });
}

TrafficMatrix read_count_matrix(const std::string& path) {
  return read_matrix(path, kCountsSource, "whole numbers", parse_cell_count);
}

}  // namespace busbw
