#include "backends/host/sockets/socket_handshake.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "common/support/constant_time_equal.hpp"
#include "common/support/error.hpp"

using namespace busbw;

namespace {

Introduction example() {
  return {7,
          "node07",
          "boot net:[1]",
          {{"eth0", endpoint_of("192.0.2.2", 0), endpoint_of("255.255.255.0", 0)},
           {"ib0", endpoint_of("2001:db8::2", 0), endpoint_of("ffff:ffff::", 0)}}};
}

}  // namespace

TEST_CASE("Introduction: through bytes and back") {
  const Introduction read = introduction_of(example().encoded());
  CHECK(read.world_rank == 7);
  CHECK(read.host == "node07");
  CHECK(read.place == "boot net:[1]");
  REQUIRE(read.interfaces.size() == 2);
  CHECK(read.interfaces[0].name == "eth0");
  CHECK(read.interfaces[1].address.host() == "2001:db8::2");
  CHECK(read.interfaces[1].mask.host() == "ffff:ffff::");
}

TEST_CASE("Introduction: the same host is a place that is known and equal") {
  Introduction one = example(), other = example();
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
    CHECK_THROWS(introduction_of(std::span(introduction).first(length)));
  const Bytes door = new_door(4711).encoded();
  for (std::size_t length = 0; length < door.size(); ++length) CHECK_THROWS(door_of(std::span(door).first(length)));
  Introduction strange = example();
  Bytes bytes = strange.encoded();
  std::ranges::fill(std::span(bytes).last(8), std::byte{'x'});
  CHECK_THROWS_AS(introduction_of(bytes), EnvironmentError);
}

TEST_CASE("Door: through bytes and back; every one has secrets of its own") {
  const Door door = new_door(65535), other = new_door(65535);
  const Door read = door_of(door.encoded());
  CHECK(read.port == 65535);
  CHECK(same_secret(read.secret, door.secret));
  CHECK(same_secret(read.answer, door.answer));
  CHECK_FALSE(same_secret(door.secret, door.answer));
  CHECK_FALSE(same_secret(door.secret, other.secret));
  CHECK_FALSE(same_secret(door.answer, other.answer));
}

TEST_CASE("CallGreeting: through bytes and back; other bytes are none") {
  const CallGreeting greeting{3, 70'000, new_door(1).secret};
  auto bytes = greeting.encoded();
  const auto read = greeting_of(bytes);
  REQUIRE(read.has_value());
  CHECK(read->from == 3);
  CHECK(read->to == 70'000);
  CHECK(same_secret(read->secret, greeting.secret));
  for (std::size_t i = 0; i < 8; ++i) {
    bytes = greeting.encoded();
    bytes[i] ^= std::byte{1};
    CHECK_FALSE(greeting_of(bytes).has_value());
  }
}
