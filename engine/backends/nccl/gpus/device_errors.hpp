#pragma once
// Explains CUDA errors to the user and gives remedies. Free of CUDA headers: errors are given by CUDA's name and text.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace busbw {

/// Names a rank for messages: "rank 3 on GPU 0000:0f:00".
std::string make_rank_text(int rank, std::string_view bus_id);

/// One sentence about a CUDA error: location, activity, CUDA's description, remedy. `rank_text`: of make_rank_text;
/// `activity`: "allocating GPU memory"; `error_name`: "cudaErrorLaunchFailure"; `error_text`: the text of
/// cudaGetErrorString.
std::string device_error_message(std::string_view rank_text, std::string_view activity, std::string_view error_name,
                                 std::string_view error_text);

/// True if the error means that the GPU, or the process's access to it, is lost, so that no later call can succeed.
bool is_device_lost(std::string_view error_name);

/// Remedy for an NCCL error with the text `message`. If the text quotes a known CUDA error, the remedy of that error,
/// else "run with NCCL_DEBUG=WARN ...".
std::string_view remedy_of_library_error(std::string_view message);

/// Error message if a GPU has too little memory: the requested bytes and, if known, the free bytes. `purpose`: "a send
/// buffer".
std::string out_of_memory_message(std::string_view rank_text, std::string_view purpose, std::size_t requested_bytes,
                                  std::optional<std::size_t> free_bytes);

}  // namespace busbw
