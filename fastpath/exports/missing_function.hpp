#pragma once
// What a call of a function gets that the real library does not have.
#include <nccl.h>

namespace busbw::fastpath {

/// Says on stderr, once for each function, that the real library has none of that name. ncclInvalidUsage;
/// ncclSystemError where there is no library at all, which has been said before.
ncclResult_t report_missing_function(const char* function) noexcept;

}  // namespace busbw::fastpath
