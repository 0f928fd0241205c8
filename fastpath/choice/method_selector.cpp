// Selects a method by the settings, and by the table if the settings force no method.
#include "fastpath/choice/method_selector.hpp"

#include <algorithm>
#include <string>

#include "common/support/fnv1a.hpp"

namespace busbw::fastpath {

MethodConfig MethodSelector::select_config(Collective collective, int ranks, std::size_t size_bytes,
                                           bool in_windows) const noexcept {
  const MethodConfig delegated{};
  if (mode(collective) == Mode::off) return delegated;
  if (!settings_.forced) {
    MethodConfig config = table_.look_up_config(collective, ranks, size_bytes, in_windows);
    config.blocks = std::min(config.blocks, max_blocks_);
    return config;
  }
  const Method method = settings_.forced->method;
  const bool has_needed_windows = in_windows || method != Method::direct;
  if (!has_needed_windows || !supports(collective, method)) return delegated;
  return *settings_.forced;
}

bool MethodSelector::may_use_fast_path(int ranks) const noexcept {
  return std::ranges::any_of(kCollectives, [&](Collective collective) {
    if (mode(collective) == Mode::off) return false;
    if (!settings_.forced) return table_.has_fast_range(collective, ranks);
    return settings_.forced->method != Method::nccl && supports(collective, settings_.forced->method);
  });
}

bool MethodSelector::verifies_any() const noexcept {
  return std::ranges::any_of(kCollectives, [this](Collective collective) { return mode(collective) == Mode::verify; });
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
