#include "fastpath/choice/method_selector.hpp"

#include <algorithm>
#include <string>

#include "common/support/fnv1a.hpp"

namespace busbw::fastpath {

MethodConfig MethodSelector::select(Collective collective, int ranks, std::size_t size_bytes,
                                    bool in_windows) const noexcept {
  if (mode(collective) == Mode::off) return {};
  if (!settings_.forced) {
    MethodConfig config = table_.choose(collective, ranks, size_bytes, in_windows);
    config.blocks = std::min(config.blocks, max_blocks_);
    return config;
  }
  const Method method = settings_.forced->method;
  return supports(collective, method) && (in_windows || method != Method::direct) ? *settings_.forced : MethodConfig{};
}

bool MethodSelector::selects_any(int ranks) const noexcept {
  return std::ranges::any_of(kCollectives, [&](Collective one) {
    if (mode(one) == Mode::off) return false;
    if (!settings_.forced) return table_.selects_any(one, ranks);
    return settings_.forced->method != Method::nccl && supports(one, settings_.forced->method);
  });
}

bool MethodSelector::verifies_any() const noexcept {
  return std::ranges::any_of(kCollectives, [this](Collective one) { return mode(one) == Mode::verify; });
}

std::uint64_t MethodSelector::hash() const noexcept {
  std::string text = std::to_string(table_.hash()) + ' ' + std::to_string(max_blocks_);
  for (const Mode mode : settings_.modes) text += ' ' + std::to_string(static_cast<int>(mode));
  if (settings_.forced)
    text += ' ' + std::string(name(settings_.forced->method)) + ' ' + std::to_string(settings_.forced->blocks) + ' ' +
            std::to_string(settings_.forced->threads);
  return fnv1a(text);
}

}  // namespace busbw::fastpath
