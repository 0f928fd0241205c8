#pragma once
// Facts of a collective. CMake generates the facts of all collectives from src/busbw/collectives.toml, as
// common/values/collectives.inc. src/busbw/collectives.py explains the fields.
#include <array>
#include <string_view>

namespace busbw {

/// Facts of one collective, as texts of collectives.toml. `fast_methods`: methods of the fast path besides `nccl`,
/// which delegates. The unused entries after them are empty.
struct CollectiveFacts {
  std::string_view name;
  std::string_view bus_factor;
  std::string_view algbw_factor = "1";
  std::string_view input;
  std::string_view output;
  std::string_view redop;
  std::string_view root = {};
  std::array<std::string_view, 3> fast_methods = {};

  // Derived from the texts.
  bool reduces = redop == "always";
  bool has_root = !root.empty();
  bool only_root_sends = root == "source";
  bool only_root_receives = root == "target";
  bool sends_shares = input == "shares";  // a rank's input has one share for each rank
  bool receives_shares = output == "shares";
};

}  // namespace busbw
