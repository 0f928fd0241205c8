#include "common/support/sha256.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "common/support/printable.hpp"

using namespace busbw;

namespace {

std::string sum(std::string_view text) { return hexadecimal(sha256(text)); }
std::string mac(std::string_view key, std::string_view message) { return hexadecimal(hmac_sha256(key, message)); }

}  // namespace

TEST_CASE("sha256: the examples of FIPS 180-2, appendix B, and the empty text") {
  CHECK(sum("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sum("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sum("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
            "tnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(sum(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: every length around the block boundaries, compared with Python's hashlib") {
  std::string sums;
  std::string text;
  for (int length = 0; length < 200; ++length) {
    sums += sum(text);
    text += static_cast<char>(length);
  }
  CHECK(sum(sums) == "7a38a844c9e159de39f0862ee2e28569a8250831150a3fbf0a59c001129b2fb2");
}

TEST_CASE("sha256: the result does not depend on how many blocks are added before the rest") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  const auto bytes = std::as_bytes(std::span(text));
  for (const std::size_t first : {0, 64, 128, 960}) {
    CAPTURE(first);
    CHECK(Sha256().add_blocks(bytes.first(first)).finish(bytes.subspan(first)) == sha256(text));
  }
}

TEST_CASE("sha256: equal results with and without the processor's SHA instructions") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i);
  for (const std::size_t length : {0, 1, 64, 127, 128, 3000, 5000}) {
    CAPTURE(length);
    const std::string_view part = std::string_view(text).substr(0, length);
    CHECK(Sha256(Sha256::Implementation::portable).finish(std::as_bytes(std::span(part))) == sha256(part));
  }
}

TEST_CASE("hmac_sha256: the test cases of RFC 4231") {
  CHECK(mac(std::string(20, '\x0b'), "Hi There") == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(mac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(mac(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  const std::string long_key(131, '\xaa');
  CHECK(mac(long_key, "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(mac(long_key,
            "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
            "hashed before being used by the HMAC algorithm.") ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}
