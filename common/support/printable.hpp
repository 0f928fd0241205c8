#pragma once
// Text for messages and terminals, from bytes and from text of users, launchers and the network.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// Returns `text` as one line without control characters. They are replaced by escapes such as \n, \t and \x1b.
std::string printable(std::string_view text);

/// Returns a value from a user, a launcher or the network for a message: printable, and cut if it is long.
std::string printable_value(std::string_view value);

/// Returns two lower-case hexadecimal digits for each byte.
std::string hexadecimal(std::span<const std::byte> bytes);

/// Returns the bytes that `hexadecimal` encoded as `digits`, or nothing if it is another text.
std::optional<std::vector<std::byte>> bytes_of_hexadecimal(std::string_view digits);

}  // namespace busbw
