// Finds the jump target of a forwarded function: the real function, or a stub that returns an error.
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
enum class ReturnKind { result, text, zero };

ReturnKind return_kind(std::string_view name) {
  if (name.starts_with('p')) name.remove_prefix(1);  // pnccl... returns the same type as nccl...
  constexpr std::array<std::string_view, 2> text_functions{"ncclGetErrorString", "ncclGetLastError"};
  if (std::ranges::find(text_functions, name) != text_functions.end()) return ReturnKind::text;
  // These return void, a number, a pointer, or an ncclTeam of three ints.
  constexpr std::array<std::string_view, 7> zero_functions{
      "ncclLLA2ACalcSlots",        "ncclParamDumpAll",   "ncclParamEnvPluginGet",     "ncclParamIsCacheDisabled",
      "ncclParamRegistryInstance", "ncclResetDebugInit", "ncclResetDebugInitInternal"};
  if (name.starts_with("ncclTeam") || std::ranges::find(zero_functions, name) != zero_functions.end())
    return ReturnKind::zero;
  return ReturnKind::result;
}

// Stubs that are called instead of a missing function. return_zero() sets both return registers to zero, which covers
// all types of ReturnKind::zero.
__int128 return_zero() { return 0; }
int return_system_error() { return kSystemError; }
int return_invalid_usage() { return kInvalidUsage; }
const char* return_no_library_text() { return "libbusbw_nccl.so has found no NCCL"; }
const char* return_no_function_text() { return "this NCCL has no error texts"; }

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* stub_without_library(ReturnKind kind) {
  if (kind == ReturnKind::text) return address_of(return_no_library_text);
  return kind == ReturnKind::result ? address_of(return_system_error) : address_of(return_zero);
}

void* stub_without_function(ReturnKind kind) {
  if (kind == ReturnKind::text) return address_of(return_no_function_text);
  return kind == ReturnKind::result ? address_of(return_invalid_usage) : address_of(return_zero);
}

void report_missing(const OpenedLibrary& real, const Export& function) noexcept try {
  print_stderr("libbusbw_nccl.so", fmt::format("{} has no {}, so calls of it fail; install NCCL {} or newer",
                                               real.name_text(), function.name, function.since));
} catch (const std::exception&) {
  // Out of memory: the message is lost, but the caller still gets an error code.
}

}  // namespace

void* resolve_export(const Export& function, std::atomic<void*>& target) noexcept {
  const ReturnKind kind = return_kind(function.name);
  const OpenedLibrary* const real = real_library();
  if (!real) return stub_without_library(kind);  // `target` stays unchanged
  void* const real_function = real->find(function.name);
  void* const jump_target = real_function ? real_function : stub_without_function(kind);
  // Several threads may make the first call at the same time. Only the first to store the address reports.
  const void* const previous_target = target.exchange(jump_target, std::memory_order_acq_rel);
  const bool is_first = previous_target != jump_target;
  if (is_first && !real_function) report_missing(*real, function);
  return jump_target;
}

}  // namespace busbw::fastpath
