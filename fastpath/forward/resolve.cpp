#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/support/stderr_message.hpp"
#include "fastpath/forward/real_library.hpp"
#include "fastpath/forward/trampolines.hpp"

namespace busbw::fastpath {
namespace {

// Values of ncclResult_t.
constexpr int kSystemError = 2;
constexpr int kInvalidUsage = 5;

/// Kind of return value that a call of a missing function gets.
enum class ReturnKind { result, text, nothing };

ReturnKind return_kind(std::string_view name) {
  if (name.starts_with('p')) name.remove_prefix(1);
  constexpr std::array<std::string_view, 2> texts{"ncclGetErrorString", "ncclGetLastError"};
  if (std::ranges::find(texts, name) != texts.end()) return ReturnKind::text;
  // These return void, a number, a pointer, or an ncclTeam of three ints.
  constexpr std::array<std::string_view, 7> others{
      "ncclLLA2ACalcSlots",        "ncclParamDumpAll",   "ncclParamEnvPluginGet",     "ncclParamIsCacheDisabled",
      "ncclParamRegistryInstance", "ncclResetDebugInit", "ncclResetDebugInitInternal"};
  if (name.starts_with("ncclTeam") || std::ranges::find(others, name) != others.end()) return ReturnKind::nothing;
  return ReturnKind::result;
}

/// Sets both return registers to zero, which covers all return types above.
__int128 nothing() { return 0; }
int no_library() { return kSystemError; }
int no_function() { return kInvalidUsage; }
const char* no_library_text() { return "libbusbw_nccl.so has found no NCCL"; }
const char* no_function_text() { return "this NCCL has no error texts"; }

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* stub_without_library(ReturnKind kind) {
  if (kind == ReturnKind::text) return address_of(no_library_text);
  return kind == ReturnKind::result ? address_of(no_library) : address_of(nothing);
}

void* stub_without_function(ReturnKind kind) {
  if (kind == ReturnKind::text) return address_of(no_function_text);
  return kind == ReturnKind::result ? address_of(no_function) : address_of(nothing);
}

void report_missing(const RealLibrary& real, const Export& function) noexcept try {
  print_stderr("libbusbw_nccl.so", fmt::format("{} has no {}, so calls of it fail; install NCCL {} or newer",
                                               real.named(), function.name, function.since));
} catch (const std::exception&) {
  // Out of memory: the message is lost, but the caller still gets an error code.
}

}  // namespace

void* resolve_export(const Export& function, std::atomic<void*>& target) noexcept {
  const ReturnKind kind = return_kind(function.name);
  const RealLibrary* const real = real_library();
  if (!real) return stub_without_library(kind);
  void* const found = real->find(function.name);
  void* const next = found ? found : stub_without_function(kind);
  // Several threads may make the first call at the same time. Only the first to store the address reports.
  if (target.exchange(next, std::memory_order_acq_rel) != next && !found) report_missing(*real, function);
  return next;
}

}  // namespace busbw::fastpath
