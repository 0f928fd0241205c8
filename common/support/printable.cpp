// Escapes control characters, so that text from outside cannot break a line of a message, and cannot control a terminal
// that reads UTF-8. A terminal in an 8-bit mode can still execute single bytes from 0x80 to 0x9f.
#include "common/support/printable.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace busbw {
namespace {

/// Maximum length of a value in a message, before control characters become escapes. Usual names, paths and addresses
/// are shorter.
constexpr std::size_t kMaxBytes = 200;

/// True for the UTF-8 encoding of a C1 control character (U+0080 to U+009F). Some terminals execute such characters.
bool is_c1_control(unsigned char first, unsigned char second) {
  return first == 0xc2 && second >= 0x80 && second < 0xa0;
}

bool is_continuation_byte(unsigned char byte) { return (byte & 0xc0) == 0x80; }

}  // namespace

std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next_byte = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : '\0';
    if (byte == '\n') {
      line += "\\n";
    } else if (byte == '\t') {
      line += "\\t";
    } else if (byte < ' ' || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else if (is_c1_control(byte, next_byte)) {
      line += fmt::format("\\x{:02x}", next_byte);  // the number of a C1 character equals its second byte
      ++i;
    } else {
      line += text[i];
    }
  }
  return line;
}

std::string printable_value(std::string_view value) {
  if (value.size() <= kMaxBytes) return printable(value);
  std::size_t end = kMaxBytes;
  while (end > 0 && is_continuation_byte(static_cast<unsigned char>(value[end])))
    --end;  // do not split a UTF-8 character
  return fmt::format("{}... ({} bytes)", printable(value.substr(0, end)), value.size());
}

std::string hexadecimal(std::span<const std::byte> bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

std::optional<std::vector<std::byte>> bytes_of_hexadecimal(std::string_view digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (digits.size() % 2 != 0 || digits.find_first_not_of(kDigits) != digits.npos) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(digits.size() / 2);
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(kDigits.find(digits[i]) * 16 + kDigits.find(digits[i + 1])));
  return bytes;
}

}  // namespace busbw
