#pragma once
#include <string>
#include <vector>

#include "team.hpp"

namespace stress {

struct CaseSettings {
  int ranks = 2;
  Mode mode = Mode::threads;
  int rounds = 8;          ///< of what is repeated
  int communicators = 2;   ///< of `crossed`
  bool ends_differ = true;  ///< of `destroy_order`: in another order on every rank
};

/// The names that run_case() knows.
std::vector<std::string> case_names();
/// The exit code, as run_team() has it; 2: there is no such case.
int run_case(const std::string& name, const CaseSettings& settings);

}  // namespace stress
