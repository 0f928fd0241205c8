#pragma once
// Repeatable random numbers for property tests.
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace busbw {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// 0 .. end - 1.
  std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(engine_); }
  double unit() { return std::uniform_real_distribution<double>(0, 1)(engine_); }
  /// A random character of a string, or element of a list.
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(list.size())];
  }
  std::string text(std::string_view characters, std::size_t most) {
    std::string result(below(most + 1), ' ');
    for (char& character : result) character = one_of(characters);
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace busbw
