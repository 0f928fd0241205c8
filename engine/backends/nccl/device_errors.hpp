#pragma once
// What CUDA's errors mean for the person who runs the job, and what to do.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace busbw {

/// An error of CUDA in one sentence: where, in doing what, what CUDA calls it, and the remedy.
/// `where`: "rank 3 on GPU 0000:0f:00"; `name` and `text`: CUDA's, such as "cudaErrorLaunchFailure".
std::string device_error_message(std::string_view where, std::string_view doing, std::string_view name,
                                  std::string_view text);

/// Whether the GPU or the driver's hold on it is gone, so that nothing on it can go on.
bool is_device_lost(std::string_view name);

/// What to do about an error of the library, by what it says of it: where that is CUDA's text of an error, that one's
/// remedy.
std::string_view remedy_of_library_error(std::string_view said);

/// A GPU has no room: what was asked for, and what is free where that is known.
std::string out_of_memory_message(std::string_view where, std::string_view what, std::size_t asked_bytes,
                                   std::optional<std::size_t> free_bytes);

}  // namespace busbw
