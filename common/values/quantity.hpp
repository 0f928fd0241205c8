#pragma once
// Parsers for quantities as users type them: sizes, counts, durations, fractions. Sizes are binary, as in nccl-tests.
// A parser returns nothing if the text is invalid or ambiguous.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace busbw {

/// Parses bytes: a decimal number with an optional K, M, G or T (1024-based, either case), which B or iB may follow:
/// "8", "32M", "0.5GiB", "1e6". Rejects signs, fractions of a byte, other suffixes, hexadecimal and trailing text.
/// Python's busbw.units.parse_size accepts the same texts.
std::optional<std::uint64_t> parse_size_bytes(std::string_view text);
/// Parses digits only: no sign, prefix or blank. Leading zeros are accepted.
std::optional<std::uint64_t> parse_digits(std::string_view text, int base = 10);
/// Parses a decimal or 0x-prefixed integer. Rejects leading zeros, because nccl-tests would read the number as octal.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// Parses a finite decimal number that is not negative.
std::optional<double> parse_number(std::string_view text);
/// Parses seconds: "60s", "500ms", "2m" or "60".
std::optional<double> parse_duration_s(std::string_view text);
/// Parses a fraction: "1%" or "0.01".
std::optional<double> parse_fraction(std::string_view text);

/// Returns a size in the largest suitable unit: "64 MiB", "1.5 GiB", "8 B".
std::string size_text(std::uint64_t bytes);

}  // namespace busbw
