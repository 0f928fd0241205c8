#include "collectives/all.hpp"
#include "support_collective.hpp"

using namespace busbw;

TEST_CASE("reduce_scatter: counts, in-place offsets and busbw as in nccl-tests") {
  // count, element bytes, ranks; sent, received, the call's count, offsets in place; bytes of algbw, factor to busbw
  check_facts(*make_reduce_scatter({}),
              {
                  {0, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
                  {1, 4, 1, 0, 0, 0, 0, 0, 0, 0},
                  {1, 4, 4, 0, 0, 0, 0, 0, 0, 3.0 / 4},
                  {3, 8, 2, 0, 0, 0, 0, 0, 0, 1.0 / 2},
                  {16, 1, 1, 16, 16, 16, 0, 16, 16, 0},
                  {17, 1, 1, 16, 16, 16, 0, 16, 16, 0},
                  {101, 1, 4, 64, 16, 16, 0, 16, 64, 3.0 / 4},
                  {101, 2, 3, 96, 32, 32, 0, 32, 192, 2.0 / 3},
                  {1000, 4, 7, 980, 140, 140, 0, 140, 3920, 6.0 / 7},
                  {1000, 8, 8, 992, 124, 124, 0, 124, 7936, 7.0 / 8},
                  {1024, 4, 8, 1024, 128, 128, 0, 128, 4096, 7.0 / 8},
                  {1048576, 1, 32, 1048576, 32768, 32768, 0, 32768, 1048576, 31.0 / 32},
                  {1000003, 2, 3, 999984, 333328, 333328, 0, 333328, 1999968, 2.0 / 3},
                  {268435456, 4, 8, 268435456, 33554432, 33554432, 0, 33554432, 1073741824, 7.0 / 8},
                  {8589934592, 8, 3, 8589934590, 2863311530, 2863311530, 0, 2863311530, 68719476720, 2.0 / 3},
                  {8388608, 4, 2, 8388608, 4194304, 4194304, 0, 4194304, 33554432, 1.0 / 2},
              });
}

TEST_CASE("reduce_scatter: each rank holds its own share of the reduction") {
  const auto collective = make_reduce_scatter({});
  CHECK(collective->reduces());
  CHECK_FALSE(collective->has_root());
  CHECK(collective->in_place_defined());
  const Shape shape = collective->shape(64, 4, 3);
  const Piece piece = collective->expected(shape, 4, 2, 3, -1).at(0);
  CHECK(piece.source == Piece::Source::reduced);
  CHECK(piece.first == 2 * shape.recv_count);
}
