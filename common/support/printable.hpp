#pragma once
// What others wrote, in sentences of ours.
#include <string>
#include <string_view>

namespace busbw {

/// `text` as one line that does nothing to a terminal: control characters, line breaks among them, become \n, \t, \x1b.
std::string printable(std::string_view text);

/// A value that a user, a launcher or a stranger gave, for a sentence: printable, and cut where it is long.
std::string printable_value(std::string_view value);

}  // namespace busbw
