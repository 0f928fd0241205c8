#include "state.hpp"

namespace busbw::fastpath::model {

std::pair<std::uint64_t, std::uint64_t> digest(const State& state) {
  std::uint64_t a = 0x9e3779b97f4a7c15U;
  std::uint64_t b = 0xc2b2ae3d27d4eb4fU;
  const auto add = [&](std::uint64_t value) {
    a = (a ^ value) * 0xbf58476d1ce4e5b9U;
    a ^= a >> 31;
    b = (b + value) * 0x94d049bb133111ebU;
    b ^= b >> 29;
  };
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  for (const Gpu& gpu : state.gpus) {
    std::uint64_t bits = number(gpu.kernel);
    for (int word = 0; word < kWords; ++word) {
      bits = bits * 2 + number(gpu.retired[word]);
      add(gpu.words[word]);
    }
    add(bits * 2 + number(gpu.has_begun));
  }
  for (const Agent& agent : state.agents) {
    add(number(agent.kernel) << 32 | number(agent.stops) << 8 | number(agent.wait) << 2 | number(agent.region) << 1 |
        number(agent.is_running));
    add(agent.last_barrier << 48 ^ agent.tag << 24 ^ agent.last_tag);
  }
  for (const Slot& slot : state.slots) {
    add(slot.here.tag << 3 | number(slot.is_taken) << 2 | number(slot.tag_is_under_way) << 1 |
        number(slot.data_is_under_way));
    add(slot.here.data ^ slot.under_way.tag << 40);
    add(slot.here.arrival << 48 ^ slot.under_way.data);
  }
  for (const Letter& letter : state.read) {
    add(letter.data);
    add(number(letter.label.kernel) << 32 ^ number(letter.label.region) << 16 ^ number(letter.label.number));
  }
  for (const std::uint64_t cell : state.taken) add(cell);
  for (const std::uint64_t word : state.contents.words) add(word);
  for (const int kernel : state.contents.inside) add(number(kernel));
  for (const Write& one : state.contents.under_way) {
    add(number(one.rank) << 48 | number(one.from) << 40 | number(one.block) << 32 | number(one.place.first) << 24 |
        number(one.place.second) << 8 | number(one.kernel));
    add(one.value);
  }
  return {a, b};
}

}  // namespace busbw::fastpath::model
