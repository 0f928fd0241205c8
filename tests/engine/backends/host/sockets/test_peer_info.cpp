#include "backends/host/sockets/peer_info.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "common/support/error.hpp"

using namespace busbw;

namespace {

PeerInfo example() {
  return {7,
          "node07",
          "boot net:[1]",
          {{"eth0", endpoint_of("192.0.2.2", 0), endpoint_of("255.255.255.0", 0)},
           {"ib0", endpoint_of("2001:db8::2", 0), endpoint_of("ffff:ffff::", 0)}}};
}

}  // namespace

TEST_CASE("PeerInfo: encoded and decoded") {
  const PeerInfo read = decode_peer_info(example().encoded());
  CHECK(read.world_rank == 7);
  CHECK(read.host == "node07");
  CHECK(read.loopback_namespace == "boot net:[1]");
  REQUIRE(read.interfaces.size() == 2);
  CHECK(read.interfaces[0].name == "eth0");
  CHECK(read.interfaces[1].address.host() == "2001:db8::2");
  CHECK(read.interfaces[1].mask.host() == "ffff:ffff::");
}

TEST_CASE("PeerInfo: the same host has a known and equal loopback namespace") {
  PeerInfo one = example(), other = example();
  other.host = "called otherwise";
  CHECK(one.shares_loopback_with(other));
  other.loopback_namespace = "boot net:[2]";
  CHECK_FALSE(one.shares_loopback_with(other));
  one.loopback_namespace = other.loopback_namespace = "";
  CHECK_FALSE(one.shares_loopback_with(other));
}

TEST_CASE("PeerInfo: truncated bytes are refused at every length") {
  const Bytes introduction = example().encoded();
  for (std::size_t length = 0; length < introduction.size(); ++length)
    CHECK_THROWS(decode_peer_info(std::span(introduction).first(length)));
  PeerInfo strange = example();
  Bytes bytes = strange.encoded();
  std::ranges::fill(std::span(bytes).last(8), std::byte{'x'});
  CHECK_THROWS_AS(decode_peer_info(bytes), EnvironmentError);
}
