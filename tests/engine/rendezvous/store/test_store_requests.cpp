#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "support_errors.hpp"
#include "support_stores.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

constexpr double kArrivalLimitS = 0.5;  // reached by waits of tests; other members must arrive before it

const std::vector<std::string> kFourWell(4);

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

}  // namespace

TEST_CASE("TcpStore: get returns a value that is set before or after the call") {
  TcpStores stores(4, kSafetyLimitS);
  const auto ends = run_members(4, [&](int member) {
    TcpStore& store = stores.of(member);
    if (member == 3) store.set("late", bytes_of("here it is"));
    for (int i = 0; i < 2; ++i)
      if (text_of(store.get("late")) != "here it is") throw std::runtime_error("another value");
  });
  CHECK(ends == kFourWell);
}

TEST_CASE("TcpStore: values may be empty, of maximum length, and contain any byte") {
  TcpStores stores(2, kSafetyLimitS);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, StoreState::kMaxValueBytes}) {
    const std::string key = "of " + std::to_string(size);
    stores.of(0).set(key, pattern(size));
    CHECK(stores.of(1).get(key) == pattern(size));
  }
}

TEST_CASE("TcpStore: keys may contain any character and have the maximum length") {
  std::string all;
  for (int letter = 0; letter < 256; ++letter) all += static_cast<char>(letter);
  const std::vector<std::string> keys{"a",
                                      "..",
                                      "/etc/passwd",
                                      "a/b",
                                      "A",
                                      "a_2f",
                                      "a~",
                                      "draft-1",
                                      "failure",
                                      "+failure",
                                      all,
                                      std::string(StoreState::kMaxKeyBytes, 'k'),
                                      std::string(StoreState::kMaxKeyBytes - 1, 'k') + "l",
                                      std::string(StoreState::kMaxKeyBytes, '/')};
  TcpStores stores(2, kSafetyLimitS);
  for (std::size_t i = 0; i < keys.size(); ++i) stores.of(0).set(keys[i], bytes_of(std::to_string(i)));
  for (std::size_t i = 0; i < keys.size(); ++i) CHECK(text_of(stores.of(1).get(keys[i])) == std::to_string(i));
}

TEST_CASE("TcpStore: rejects keys and values beyond the bounds, and keeps working") {
  TcpStores stores(1, kSafetyLimitS);
  TcpStore& store = stores.of(0);
  check_names(sentence_of<EnvironmentError>([&] { store.set("big", pattern(StoreState::kMaxValueBytes + 1)); }),
              {"big", std::to_string(StoreState::kMaxValueBytes + 1), std::to_string(StoreState::kMaxValueBytes)});
  check_names(sentence_of<EnvironmentError>([&] { store.set("", {}); }), {"a key of 0 bytes"});
  check_names(sentence_of<EnvironmentError>([&] { store.get(std::string(StoreState::kMaxKeyBytes + 1, 'k')); }),
              {"a key of 257 bytes", "256"});
  store.set("after", bytes_of("x"));
  CHECK(text_of(store.get("after")) == "x");
}

TEST_CASE("TcpStore: a key can be set once, and keeps the first value") {
  TcpStores stores(2, kSafetyLimitS);
  stores.of(0).set("once", bytes_of("first"));
  CHECK_THROWS_AS(stores.of(1).set("once", bytes_of("second")), EnvironmentError);
  CHECK(text_of(stores.of(1).get("once")) == "first");
}

TEST_CASE("TcpStore: a value with one read is removed by it") {
  TcpStores stores(2, kArrivalLimitS);
  for (int round = 0; round < 3; ++round) {
    stores.of(0).set("note", bytes_of(std::to_string(round)), 1);
    CHECK(text_of(stores.of(1).get("note")) == std::to_string(round));
  }
  check_names(sentence_of<Error>([&] { stores.of(1).get("note"); }), {"note"});
}

TEST_CASE("TcpStore: get_all returns values in the order of the keys") {
  TcpStores stores(4, kSafetyLimitS);
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("part " + std::to_string(i));
  const auto ends = run_members(4, [&](int member) {
    if (member > 0) {
      for (int i = 39; i >= 0; --i)
        if (i % 3 == member - 1)
          stores.of(member).set(keys[static_cast<std::size_t>(i)], bytes_of(std::to_string(i)), 1);
      return;
    }
    const auto values = stores.of(0).get_all(keys);
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (text_of(values[i]) != std::to_string(i)) throw std::runtime_error("out of order");
    if (!stores.of(0).get_all({}).empty()) throw std::runtime_error("something from nothing");
  });
  CHECK(ends == kFourWell);
}

TEST_CASE("TcpStore: no member passes a barrier before all have arrived") {
  TcpStores stores(4, kSafetyLimitS);
  std::array<std::atomic<int>, 4> rounds{};
  const auto ends = run_members(4, [&](int member) {
    for (int round = 1; round <= 10; ++round) {
      rounds[static_cast<std::size_t>(member)] = round;
      stores.of(member).barrier("round " + std::to_string(round), member, 4);
      for (const auto& other : rounds)
        if (other < round) throw std::runtime_error("passed too early");
    }
  });
  CHECK(ends == kFourWell);
}

TEST_CASE("TcpStore: rejects a member that arrives twice or has an invalid number") {
  TcpStores stores(2, kArrivalLimitS);
  CHECK_THROWS_AS(stores.of(0).barrier("b", 2, 2), EnvironmentError);
  CHECK_THROWS_AS(stores.of(0).barrier("b", -1, 2), EnvironmentError);
  CHECK_THROWS_AS(stores.of(0).barrier("b", 0, 2), Error);  // no other member arrives
  check_names(sentence_of<EnvironmentError>([&] { stores.of(1).barrier("b", 0, 2); }), {"member 0 of 2"});
}

TEST_CASE("TcpStore: a wait beyond the limit names the key and the missing members") {
  TcpStores stores(4, kArrivalLimitS);
  const auto expect = [](const std::function<void()>& wait, std::initializer_list<std::string_view> parts) {
    try {
      wait();
      FAIL_CHECK("it did not wait");
    } catch (const Error& error) {
      CHECK(error.exit() == ExitCode::rank_lost);
      check_names(error.what(), parts);
      check_names(error.what(), {"waited 0.5 s", "-T"});
    }
  };
  expect([&] { stores.of(0).get("the address"); }, {"the address"});
  const std::vector<std::string> keys{"one", "two"};
  stores.of(1).set("one", {});
  expect([&] { stores.of(0).get_all(keys); }, {"two"});
  const auto ends = run_members(4, [&](int member) {
    if (member % 2 == 0) stores.of(member).barrier("the start", member, 4);
  });
  for (const std::size_t member : {0U, 2U}) check_names(ends[member], {"4: ", "the start", "members 1 and 3"});
  expect([&] { stores.of(0).barrier("the end", 0, 2); }, {"the end", "member 1;"});
}

TEST_CASE("TcpStore: an abort ends all waits, also later ones") {
  TcpStores stores(4, kSafetyLimitS);
  const std::vector<std::string> keys{"never", "neither"};
  const auto ends = run_members(4, [&](int member) {
    TcpStore& store = stores.of(member);
    if (member > 0) store.set("here " + std::to_string(member), {});
    switch (member) {
      case 0:
        for (const char* here : {"here 1", "here 2", "here 3"}) store.get(here);
        stores.server().abort({ExitCode::interrupted, "stop"});
        return;
      case 1: store.get("never"); return;
      case 2: store.get_all(keys); return;
      default: store.barrier("nobody else comes", 0, 2); return;
    }
  });
  CHECK(ends == std::vector<std::string>{"", "aborted", "aborted", "aborted"});
  for (int member = 1; member < 4; ++member) {
    TcpStore& store = stores.of(member);
    CHECK_THROWS_AS(store.set("k", {}), JobAborted);
    CHECK_THROWS_AS(store.get("k"), JobAborted);
    CHECK_THROWS_AS(store.barrier("k", 0, 1), JobAborted);
  }
}
