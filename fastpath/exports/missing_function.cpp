// Reports each missing function once.
#include "fastpath/exports/missing_function.hpp"

#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <set>
#include <string>

#include "common/support/stderr_message.hpp"
#include "fastpath/forward/real_library.hpp"

namespace busbw::fastpath {

ncclResult_t report_missing_function(const char* function) noexcept try {
  const OpenedLibrary* library = real_library();
  if (library == nullptr) return ncclSystemError;
  // Never destroyed, because a program may call NCCL after main() has returned.
  static auto* const mutex = new std::mutex;
  static auto* const reported = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  if (reported->insert(function).second)
    print_stderr("libbusbw_nccl.so", fmt::format("{} has no {}, so calls of it fail; install a newer NCCL",
                                                 library->name_text(), function));
  return ncclInvalidUsage;
} catch (const std::exception&) {
  return ncclInvalidUsage;
}

}  // namespace busbw::fastpath
