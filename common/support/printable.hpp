#pragma once
// Makes text from users, launchers and the network safe for messages and terminals.
#include <string>
#include <string_view>

namespace busbw {

/// Returns `text` as one line without control characters. They are replaced by escapes such as \n, \t and \x1b.
std::string printable(std::string_view text);

/// Returns a value from a user, a launcher or the network for a message: printable, and cut if it is long.
std::string printable_value(std::string_view value);

}  // namespace busbw
