#include "common/support/constant_time_equal.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace busbw;

namespace {

std::span<const std::byte> byte_span(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("constant_time_equal: compares every byte and the length") {
  const std::string secret = "0123456789abcdef";
  CHECK(constant_time_equal(byte_span(secret), byte_span(secret)));
  CHECK(constant_time_equal({}, {}));
  for (std::size_t i = 0; i < secret.size(); ++i) {
    std::string changed = secret;
    changed[i] ^= 1;
    CHECK_FALSE(constant_time_equal(byte_span(changed), byte_span(secret)));
  }
  CHECK_FALSE(constant_time_equal(byte_span(secret), byte_span(secret.substr(0, 15))));
  CHECK_FALSE(constant_time_equal(byte_span(secret), {}));
}
