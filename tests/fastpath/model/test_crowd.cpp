// Tests of the number of places that kernels of several communicators need on a GPU without a deadlock.
#include <doctest/doctest.h>

#include "model/crowd.hpp"

using namespace busbw::fastpath::model;

namespace {

int needed(Parking parking, int communicators, int kernels, int blocks, int gpus = 2) {
  SharedGpuModel model;
  model.gpus = gpus;
  model.communicators = communicators;
  model.kernels = kernels;
  model.blocks = blocks;
  model.parking = parking;
  return places_needed(model, 12);
}

}  // namespace

TEST_CASE("one communicator needs one place, because its blocks begin in order and wait only for the same block") {
  for (const Parking parking : {Parking::none, Parking::one, Parking::chain})
    for (int blocks = 1; blocks <= 3; ++blocks) CHECK(needed(parking, 1, 3, blocks) == 1);
}

TEST_CASE("one place must stay free next to a kernel of each other communicator") {
  CHECK(needed(Parking::none, 2, 2, 1) == 2);
  CHECK(needed(Parking::none, 2, 2, 2) == 3);
  CHECK(needed(Parking::none, 2, 3, 2) == 3);
  CHECK(needed(Parking::none, 2, 1, 3) == 4);
  // Three communicators deadlock on two GPUs if one GPU has blocks of two of them and no place for the third.
  CHECK(needed(Parking::none, 3, 1, 2) == 3);
  CHECK(needed(Parking::none, 3, 1, 1, 3) == 3);
  CHECK(needed(Parking::none, 3, 1, 2, 3) == 5);
}

TEST_CASE("one parked kernel needs as many places again, and a chain needs more with every kernel") {
  CHECK(needed(Parking::one, 2, 2, 1) == 3);
  CHECK(needed(Parking::one, 2, 2, 2) == 5);
  CHECK(needed(Parking::one, 2, 3, 1) == 3);
  CHECK(needed(Parking::chain, 2, 2, 1) == 3);
  CHECK(needed(Parking::chain, 2, 3, 1) == 4);
  CHECK(needed(Parking::chain, 2, 5, 1) == 6);
}
