#include "support/message.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "support/result.hpp"

using namespace busbw;

TEST_CASE("message: values, texts and lists come out as they went in, in order") {
  const std::string text("a\0b", 3);
  const std::vector<double> numbers{1.5, -0.0, std::numeric_limits<double>::infinity()};
  const Bytes bytes = MessageWriter().add(7).add(text).add(std::uint64_t{1} << 60).add(numbers).add('x').bytes();
  MessageReader reader(bytes);
  CHECK(reader.take<int>() == 7);
  CHECK(reader.take_text() == text);
  CHECK(reader.take<std::uint64_t>() == std::uint64_t{1} << 60);
  CHECK(reader.take_doubles() == numbers);
  CHECK(reader.take<char>() == 'x');
}

TEST_CASE("message: empty texts and lists are values too") {
  const Bytes bytes = MessageWriter().add(std::string()).add(std::vector<double>()).add(1).bytes();
  MessageReader reader(bytes);
  CHECK(reader.take_text().empty());
  CHECK(reader.take_doubles().empty());
  CHECK(reader.take<int>() == 1);
}

TEST_CASE("message: missing stays missing") {
  const Bytes bytes = MessageWriter().add(std::optional<StoppedBy>()).add(std::optional(StoppedBy::max_time)).bytes();
  MessageReader reader(bytes);
  CHECK_FALSE(reader.take<std::optional<StoppedBy>>());
  CHECK(reader.take<std::optional<StoppedBy>>() == StoppedBy::max_time);
}

TEST_CASE("message: long lists") {
  std::vector<double> numbers(100'000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const Bytes bytes = MessageWriter().add(numbers).bytes();
  CHECK(MessageReader(bytes).take_doubles() == numbers);
}
