#pragma once
// Phases of a run, with their names in errors, faults and records. Each rank reports its current phase, so that an
// error can name the phase in which a rank was lost.
#include <array>
#include <string_view>

namespace busbw {

/// Phases in the order in which a rank passes them. A rank repeats warmup, timing and check for each case.
enum class Phase : int { rendezvous, initialisation, warmup, timing, check, report };
inline constexpr std::array kPhases{Phase::rendezvous, Phase::initialisation, Phase::warmup,
                                    Phase::timing,     Phase::check,          Phase::report};

/// Returns the name, for example "warmup".
constexpr std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, kPhases.size()> names{"rendezvous", "initialisation", "warmup",
                                                               "timing",     "check",          "report"};
  return names[static_cast<std::size_t>(phase)];
}

}  // namespace busbw
