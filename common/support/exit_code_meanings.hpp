#pragma once
// Meanings of the exit codes in help texts.
#include <array>
#include <string_view>

#include "common/support/error.hpp"

namespace busbw {

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};

/// All exit codes. A test compares them with src/busbw/errors.py.
inline constexpr std::array kExitCodeMeanings{
    ExitCodeMeaning{ExitCode::good, "good"},
    ExitCodeMeaning{ExitCode::wrong_data, "wrong data"},
    ExitCodeMeaning{ExitCode::usage, "usage"},
    ExitCodeMeaning{ExitCode::environment, "environment"},
    ExitCodeMeaning{ExitCode::rank_lost, "a rank was lost or timed out"},
    ExitCodeMeaning{ExitCode::slower_than_demanded, "slower than demanded"},
    ExitCodeMeaning{ExitCode::interrupted, "interrupted"},
    ExitCodeMeaning{ExitCode::output_closed, "output closed by its reader"},
    ExitCodeMeaning{ExitCode::terminated, "terminated or hung up"},
};

}  // namespace busbw
