#include "fastpath/choice/operation.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "fastpath/choice/table.hpp"

using namespace busbw::fastpath;

namespace {

CollectiveCall call_of(Collective collective, std::size_t bytes) {
  CollectiveCall call;
  call.collective = collective;
  call.bytes = bytes;
  return call;
}

}  // namespace

TEST_CASE("the size of a call is that of the larger of a rank's buffers") {
  for (const Collective collective : kCollectives) {
    const auto& facts = facts_of(collective);
    CHECK(size_bytes(call_of(collective, 100), 4) == (facts.sends_shares || facts.receives_shares ? 400 : 100));
  }
}

TEST_CASE("types are named as nccl-tests names them") {
  CHECK(name(ElementType::bytes) == "bytes");
  CHECK(name(ElementType::float16) == "half");
  CHECK(name(ElementType::bfloat16) == "bfloat16");
  CHECK(name(ElementType::float32) == "float");
}

TEST_CASE("an operation has the type, reduction and root of its call, and the method of its config") {
  CollectiveCall call = call_of(Collective::all_reduce, 1000);
  call.element = ElementType::bfloat16;
  call.redop = Redop::max;
  call.root = 3;
  const Operation operation = make_operation(call, {Method::two_shot, 2, 64}, 1, 4, 1024);
  CHECK(operation.collective == Collective::all_reduce);
  CHECK(operation.method == Method::two_shot);
  CHECK(operation.element == ElementType::bfloat16);
  CHECK(operation.redop == Redop::max);
  CHECK(operation.buffers.root == 3);
  CHECK(operation.buffers.rank == 1);
  CHECK(operation.buffers.ranks == 4);
}

TEST_CASE("the grid covers the bytes that a rank sends to each peer: the whole buffer, or a slice with two_shot") {
  const CollectiveCall call = call_of(Collective::all_reduce, std::size_t{64} * kLineDataBytes);
  const Grid whole = make_operation(call, {Method::exchange, 4, 64}, 0, 4, 1024).grid;
  CHECK(whole.blocks * whole.threads * whole.batch * whole.steps == 64 * kCellsOfLine);
  const Grid slice = make_operation(call, {Method::two_shot, 4, 64}, 0, 4, 1024).grid;
  CHECK(slice.blocks * slice.threads * slice.batch * slice.steps == 16 * kCellsOfLine);
}

TEST_CASE("in place, the own part of a moving collective is already in the output") {
  std::vector<char> memory(400);
  const auto is_there = [&](Collective collective, std::size_t send, std::size_t receive, int rank) {
    CollectiveCall call = call_of(collective, 100);
    call.send = memory.data() + send;
    call.receive = memory.data() + receive;
    call.root = 1;
    return make_operation(call, {Method::exchange, 1, 32}, rank, 3, 1024).buffers.own_in_place;
  };
  CHECK(is_there(Collective::all_gather, 100, 0, 1));
  CHECK_FALSE(is_there(Collective::all_gather, 0, 0, 1));
  CHECK(is_there(Collective::alltoall, 0, 0, 1));
  CHECK_FALSE(is_there(Collective::alltoall, 0, 100, 1));
  CHECK(is_there(Collective::broadcast, 0, 0, 1));
  CHECK_FALSE(is_there(Collective::broadcast, 0, 0, 0));  // only the root has it
  CHECK_FALSE(is_there(Collective::broadcast, 0, 100, 1));
  CHECK_FALSE(is_there(Collective::all_reduce, 0, 0, 1));
  CHECK_FALSE(is_there(Collective::reduce_scatter, 0, 0, 0));
}

TEST_CASE("the widest granule that divides a buffer's address and lengths is used") {
  alignas(16) static unsigned char memory[64];
  const MethodConfig config{Method::exchange, 1, 32};
  const auto granule = [&](std::size_t offset, std::size_t bytes) {
    CollectiveCall call;
    call.collective = Collective::all_gather;
    call.send = memory + offset;
    call.receive = memory;
    call.bytes = bytes;
    return make_operation(call, config, 0, 2, 1024).buffers.in.granule;
  };
  CHECK(granule(0, 16) == 8);
  CHECK(granule(4, 16) == 4);
  CHECK(granule(0, 12) == 4);
  CHECK(granule(2, 16) == 2);
  CHECK(granule(0, 6) == 2);
  CHECK(granule(1, 16) == 1);
  CHECK(granule(0, 15) == 1);
}
