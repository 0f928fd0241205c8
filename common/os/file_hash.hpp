#pragma once
// SHA-256 of a whole file: records state that of the measured library.
#include <future>
#include <optional>
#include <string>

namespace busbw {

/// Returns the SHA-256 of a file in hexadecimal digits, or nothing if the file cannot be read.
std::optional<std::string> hash_of_file(const std::string& path);

/// Starts hash_of_file in its own thread, because a library of 200 MB takes tenths of a second. Do not fork before the
/// result is available.
std::shared_future<std::optional<std::string>> start_hash_of_file(const std::string& path);

}  // namespace busbw
