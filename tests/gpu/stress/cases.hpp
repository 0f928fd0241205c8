#pragma once
#include <string>
#include <vector>

#include "team.hpp"

namespace stress {

/// Settings of a case.
struct CaseSettings {
  int ranks = 2;
  Mode mode = Mode::threads;
  int rounds = 8;           ///< number of repetitions
  int communicators = 2;    ///< for `crossed`
  bool ends_differ = true;  ///< for `destroy_order`: the order differs on every rank
};

/// Returns the names of all cases.
std::vector<std::string> case_names();
/// Runs a case and returns the exit code of run_team(), or 2 for an unknown case.
int run_case(const std::string& name, const CaseSettings& settings);

}  // namespace stress
