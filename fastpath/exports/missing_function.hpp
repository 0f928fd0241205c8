#pragma once
// Error results for functions that the real NCCL does not export.
#include <nccl.h>

namespace busbw::fastpath {

/// Prints to stderr that the real library lacks the function, and returns ncclInvalidUsage. Prints once for each
/// function. If there is no real library, returns ncclSystemError, because real_library() has already printed the
/// error.
ncclResult_t report_missing_function(const char* function) noexcept;

}  // namespace busbw::fastpath
