#pragma once
// Quantities as users type them: sizes, counts, durations, fractions. Binary sizes, as in nccl-tests.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace busbw {

/// What text says, or nothing when it says nothing sure.
/// Bytes: a decimal number with an optional K, M or G (1024-based, either case): "8", "32M", "0.5G", "1e6". Refused:
/// signs, fractions of a byte, other suffixes, hexadecimal, anything after the number.
std::optional<std::uint64_t> parse_size_bytes(std::string_view text);
/// A decimal integer or a hexadecimal one with 0x; refused where a leading zero would make it octal in nccl-tests.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// A finite decimal number.
std::optional<double> parse_number(std::string_view text);
/// Seconds from "60s", "500ms", "2m" or plain "60".
std::optional<double> parse_duration_s(std::string_view text);
/// A fraction from "1%" or "0.01".
std::optional<double> parse_fraction(std::string_view text);

/// "64 MiB", "1.5 GiB", "8 B".
std::string size_text(std::uint64_t bytes);

}  // namespace busbw
