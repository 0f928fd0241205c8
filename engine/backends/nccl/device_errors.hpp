#pragma once
// Explains CUDA errors to the user and gives remedies.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace busbw {

/// One sentence about a CUDA error: location, activity, CUDA's description, remedy. `where`: "rank 3 on GPU
/// 0000:0f:00"; `name` and `text`: CUDA's, such as "cudaErrorLaunchFailure".
std::string device_error_message(std::string_view where, std::string_view doing, std::string_view name,
                                 std::string_view text);

/// True if the GPU, or the process's access to it, is lost, so that no later call can succeed.
bool is_device_lost(std::string_view name);

/// Remedy for a library error. If `message` quotes the text of a CUDA error, the remedy for that error.
std::string_view remedy_of_library_error(std::string_view message);

/// Error message if a GPU has too little memory: the requested bytes and, if known, the free bytes. `purpose`: "a send
/// buffer".
std::string out_of_memory_message(std::string_view where, std::string_view purpose, std::size_t asked_bytes,
                                  std::optional<std::size_t> free_bytes);

}  // namespace busbw
