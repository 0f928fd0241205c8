#include "collectives/collective_settings.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "support_errors.hpp"
#include "support_files.hpp"

using namespace busbw;

namespace {

TrafficMatrix read(std::string_view content, double scale = 1) {
  const TemporaryFile file(content);
  return read_traffic_matrix(file.path(), scale);
}

/// Returns the error for such a file, which must name the file.
std::string refusal(std::string_view content, double scale = 1) {
  const TemporaryFile file(content);
  const std::string sentence = sentence_of<UsageError>([&] { read_traffic_matrix(file.path(), scale); });
  check_names(sentence, {file.path(), "NCCL_TESTS_ALLTOALLV_MATRIX_FILE"});
  return sentence;
}

using Cells = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("traffic matrix: rows are senders, columns are receivers, cells are rounded down to 16 bytes") {
  const TrafficMatrix matrix = read("100 200 150\n50 100 75\n300 150 200\n");
  CHECK(matrix.ranks == 3);
  CHECK(matrix.cells == Cells{96, 192, 144, 48, 96, 64, 288, 144, 192});
  CHECK(matrix.cell(0, 1) == 192);
  CHECK(matrix.cell(1, 0) == 48);
  CHECK(read("15").cells == Cells{0});
  CHECK(read("16").cells == Cells{16});
}

TEST_CASE("traffic matrix: blank lines, tabs, carriage returns and a missing last newline do not matter") {
  const Cells cells{16, 32, 48, 64};
  for (const char* content :
       {"16 32\n48 64", "\n\n16\t32\n\n  48   64  \n\n", "16 32\r\n48 64\r\n", "1.6e1 32.9\n48 0x40\n"}) {
    CAPTURE(content);
    CHECK(read(content).cells == cells);
  }
}

TEST_CASE("traffic matrix: the scale multiplies every cell before it is rounded") {
  CHECK(read("100 200\n300 8\n", 2).cells == Cells{192, 400, 592, 16});
  CHECK(read("100 200\n300 8\n", 0.5).cells == Cells{48, 96, 144, 0});
  CHECK(read("100 200\n300 8\n", 0).cells == Cells{0, 0, 0, 0});
  // 160 times the double next to 0.3 is just below 48. nccl-tests multiplies in long double and does not round up.
  CHECK(read("160", 0.3).cells == Cells{static_cast<std::uint64_t>(160.0L * 0.3) / 16 * 16});
}

TEST_CASE("traffic matrix: the error for a bad cell names row and column, counted from 1") {
  check_names(refusal("1 2\n3 x\n"), {"row 2", "column 2", "\"x\"", "not a number"});
  check_names(refusal("1 2\n3K 4\n"), {"row 2", "column 1", "\"3K\"", "not a number"});
  check_names(refusal("1 -2\n3 4\n"), {"row 1", "column 2", "\"-2\"", "negative"});
  check_names(refusal("1 nan\n3 4\n"), {"row 1", "column 2", "\"nan\"", "not a number"});
  check_names(refusal("1 2\n\n3 inf\n"), {"row 2", "column 2", "\"inf\"", "not a number"});
  check_names(refusal("1e400"), {"row 1", "column 1", "1e400"});
  check_names(refusal("1e19"), {"row 1", "column 1", "too large"});
  check_names(refusal("1e18", 1e3), {"row 1", "column 1", "too large"});
  check_names(refusal("1,2\n3,4\n"), {"row 1", "column 1"});
}

TEST_CASE("traffic matrix: the error for a matrix that is not square names its rows and columns") {
  check_names(refusal("1 2 3\n4 5\n"), {"row 2", "2 columns", "3"});
  check_names(refusal("1 2\n3 4\n5 6\n"), {"3 rows", "2 columns", "square"});
  check_names(refusal("1 2\n"), {"1 rows", "2 columns", "square"});
}

TEST_CASE("traffic matrix: an empty or missing file is an error") {
  check_names(refusal(""), {"no numbers"});
  check_names(refusal(" \n\n\t\n"), {"no numbers"});
  check_names(sentence_of<UsageError>([] { read_traffic_matrix("/nowhere/matrix.txt", 1); }),
              {"/nowhere/matrix.txt", "no such file"});
  sentence_of<UsageError>([] { read_traffic_matrix("/tmp", 1); });  // a directory
}
