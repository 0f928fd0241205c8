#pragma once
// Error results for functions that the real NCCL does not export.
#include <nccl.h>

namespace busbw::fastpath {

/// Prints to stderr, once for each function, that the real library lacks it, and returns ncclInvalidUsage. Returns
/// ncclSystemError if there is no real library, which real_library() has then printed.
ncclResult_t report_missing_function(const char* function) noexcept;

}  // namespace busbw::fastpath
