#include "backends/host/sockets/socket_handshake.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "common/support/constant_time_equal.hpp"
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

TEST_CASE("Introduction: through bytes and back") {
  const PeerInfo read = decode_peer_info(example().encoded());
  CHECK(read.world_rank == 7);
  CHECK(read.host == "node07");
  CHECK(read.place == "boot net:[1]");
  REQUIRE(read.interfaces.size() == 2);
  CHECK(read.interfaces[0].name == "eth0");
  CHECK(read.interfaces[1].address.host() == "2001:db8::2");
  CHECK(read.interfaces[1].mask.host() == "ffff:ffff::");
}

TEST_CASE("Introduction: the same host is a place that is known and equal") {
  PeerInfo one = example(), other = example();
  other.host = "called otherwise";
  CHECK(one.same_host(other));
  other.place = "boot net:[2]";
  CHECK_FALSE(one.same_host(other));
  one.place = other.place = "";
  CHECK_FALSE(one.same_host(other));
}

TEST_CASE("Introduction and Door: what is too short is refused at every length") {
  const Bytes introduction = example().encoded();
  for (std::size_t length = 0; length < introduction.size(); ++length)
    CHECK_THROWS(decode_peer_info(std::span(introduction).first(length)));
  const Bytes door = new_listener_credentials(4711).encoded();
  for (std::size_t length = 0; length < door.size(); ++length) CHECK_THROWS(decode_listener_credentials(std::span(door).first(length)));
  PeerInfo strange = example();
  Bytes bytes = strange.encoded();
  std::ranges::fill(std::span(bytes).last(8), std::byte{'x'});
  CHECK_THROWS_AS(decode_peer_info(bytes), EnvironmentError);
}

TEST_CASE("Door: through bytes and back; every one has secrets of its own") {
  const ListenerCredentials door = new_listener_credentials(65535), other = new_listener_credentials(65535);
  const ListenerCredentials read = decode_listener_credentials(door.encoded());
  CHECK(read.port == 65535);
  CHECK(constant_time_equal(read.secret, door.secret));
  CHECK(constant_time_equal(read.answer, door.answer));
  CHECK_FALSE(constant_time_equal(door.secret, door.answer));
  CHECK_FALSE(constant_time_equal(door.secret, other.secret));
  CHECK_FALSE(constant_time_equal(door.answer, other.answer));
}

TEST_CASE("CallGreeting: through bytes and back; other bytes are none") {
  const ConnectRequest greeting{3, 70'000, new_listener_credentials(1).secret};
  auto bytes = greeting.encoded();
  const auto read = decode_connect_request(bytes);
  REQUIRE(read.has_value());
  CHECK(read->from == 3);
  CHECK(read->to == 70'000);
  CHECK(constant_time_equal(read->secret, greeting.secret));
  for (std::size_t i = 0; i < 8; ++i) {
    bytes = greeting.encoded();
    bytes[i] ^= std::byte{1};
    CHECK_FALSE(decode_connect_request(bytes).has_value());
  }
}
