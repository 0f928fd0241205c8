#pragma once
// A fake environment for tests.
#include <map>
#include <optional>
#include <string>

namespace busbw {

using Variables = std::map<std::string, std::string>;

/// Variables that `look_up` returns. They are global, because an Environment is a plain function.
inline Variables& made_up_environment() {
  thread_local Variables variables;
  return variables;
}
inline std::optional<std::string> look_up(const char* variable) {
  const auto found = made_up_environment().find(variable);
  if (found == made_up_environment().end()) return std::nullopt;
  return found->second;
}

}  // namespace busbw
