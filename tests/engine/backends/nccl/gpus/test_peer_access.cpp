#include "backends/nccl/gpus/peer_access.hpp"

#include <doctest/doctest.h>

using namespace busbw;

TEST_CASE("peer_access_warning: nothing if all GPUs reach each other") {
  CHECK(!peer_access_warning({}, ""));
  CHECK(!peer_access_warning({}, "0"));
}

TEST_CASE("peer_access_warning: names the pairs and the tools to check") {
  CHECK(peer_access_warning({{"0000:0f:00", "0000:86:00"}}, "") ==
        "GPUs 0000:0f:00 and 0000:86:00 have no access to each other's memory, so NCCL moves their data through the "
        "host's; check busbw topo and nvidia-smi topo -p2p r, and turn PCIe ACS off if no virtual machine needs it");
}

TEST_CASE("peer_access_warning: names a few of many pairs and counts the others") {
  const auto warning =
      peer_access_warning({{"a", "b"}, {"a", "c"}, {"a", "d"}, {"b", "c"}, {"b", "d"}, {"c", "d"}}, "0");
  REQUIRE(warning);
  CHECK(warning->find("GPUs a and b, a and c, a and d, b and c and 2 more pairs have") == 0);
}

TEST_CASE("peer_access_warning: NCCL_P2P_DISABLE precedes the pairs") {
  CHECK(peer_access_warning({{"a", "b"}}, "1") ==
        "NCCL_P2P_DISABLE=1 is set, so GPUs move data through the host's memory; unset it to use their own links");
}
