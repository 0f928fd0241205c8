// How much room on a GPU the kernels of several communicators need, so that they cannot wait for each other for ever.
#include <doctest/doctest.h>

#include "model/crowd.hpp"

using namespace busbw::fastpath::model;

namespace {

int needed(Parking parking, int communicators, int kernels, int blocks, int gpus = 2) {
  Crowd crowd;
  crowd.gpus = gpus;
  crowd.communicators = communicators;
  crowd.kernels = kernels;
  crowd.blocks = blocks;
  crowd.parking = parking;
  return places_needed(crowd, 12);
}

}  // namespace

TEST_CASE("one communicator needs a single place, since blocks begin in order and wait for their likes only") {
  for (const Parking parking : {Parking::none, Parking::one, Parking::chain})
    for (int blocks = 1; blocks <= 3; ++blocks) CHECK(needed(parking, 1, 3, blocks) == 1);
}

TEST_CASE("beside a kernel of each other communicator a place must be left") {
  CHECK(needed(Parking::none, 2, 2, 1) == 2);
  CHECK(needed(Parking::none, 2, 2, 2) == 3);
  CHECK(needed(Parking::none, 2, 3, 2) == 3);
  CHECK(needed(Parking::none, 2, 1, 3) == 4);
  // Three communicators hang two GPUs when one GPU has blocks of two of them and no room for the third's.
  CHECK(needed(Parking::none, 3, 1, 2) == 3);
  CHECK(needed(Parking::none, 3, 1, 1, 3) == 3);
  CHECK(needed(Parking::none, 3, 1, 2, 3) == 5);
}

TEST_CASE("kernels that are parked take as much room again, and a chain of them all there is") {
  CHECK(needed(Parking::one, 2, 2, 1) == 3);
  CHECK(needed(Parking::one, 2, 2, 2) == 5);
  CHECK(needed(Parking::one, 2, 3, 1) == 3);
  CHECK(needed(Parking::chain, 2, 2, 1) == 3);
  CHECK(needed(Parking::chain, 2, 3, 1) == 4);
  CHECK(needed(Parking::chain, 2, 5, 1) == 6);
}
