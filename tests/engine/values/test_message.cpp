#include "values/message.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "values/run_result.hpp"

using namespace busbw;

TEST_CASE("message: values, texts and lists are read as written, in order") {
  const std::string text("a\0b", 3);
  const std::vector<double> numbers{1.5, -0.0, std::numeric_limits<double>::infinity()};
  const Bytes bytes = MessageWriter().add(7).add(text).add(std::uint64_t{1} << 60).add(numbers).add('x').bytes();
  MessageReader reader(bytes);
  CHECK(reader.take<int>() == 7);
  CHECK(reader.take_text() == text);
  CHECK(reader.take<std::uint64_t>() == std::uint64_t{1} << 60);
  CHECK(reader.take<std::vector<double>>() == numbers);
  CHECK(reader.take<char>() == 'x');
}

TEST_CASE("message: empty texts and lists are values too") {
  const Bytes bytes = MessageWriter().add(std::string()).add(std::vector<double>()).add(1).bytes();
  MessageReader reader(bytes);
  CHECK(reader.take_text().empty());
  CHECK(reader.take<std::vector<double>>().empty());
  CHECK(reader.take<int>() == 1);
}

TEST_CASE("message: missing stays missing") {
  const Bytes bytes = MessageWriter().add(std::optional<StopReason>()).add(std::optional(StopReason::max_time)).bytes();
  MessageReader reader(bytes);
  CHECK_FALSE(reader.take<std::optional<StopReason>>());
  CHECK(reader.take<std::optional<StopReason>>() == StopReason::max_time);
}

TEST_CASE("message: long lists") {
  std::vector<double> numbers(100'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const Bytes bytes = MessageWriter().add(numbers).bytes();
  CHECK(MessageReader(bytes).take<std::vector<double>>() == numbers);
}

TEST_CASE("message: truncated bytes are an error at every position") {
  const Bytes whole = MessageWriter().add(7).add(std::string("text")).add(std::vector<double>{1, 2}).bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::span<const std::byte> cut = std::span(whole).first(length);
    CHECK_THROWS_AS(
        [&] {
          MessageReader reader(cut);
          reader.take<int>();
          reader.take_text();
          reader.take<std::vector<double>>();
        }(),
        BrokenMessage);
  }
}

TEST_CASE("message: an impossible length is an error, without allocating memory") {
  for (const std::size_t count : {~std::size_t{0}, std::size_t{1} << 62, (std::size_t{1} << 61) + 1, std::size_t{9}}) {
    Bytes bytes = MessageWriter().add(count).bytes();
    bytes.resize(bytes.size() + 8);
    CHECK_THROWS_AS(MessageReader(bytes).take_text(), BrokenMessage);
    CHECK_THROWS_AS(MessageReader(bytes).take_bytes(), BrokenMessage);
    CHECK_THROWS_AS(MessageReader(bytes).take<std::vector<double>>(), BrokenMessage);
  }
}
