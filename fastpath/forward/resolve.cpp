#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/support/stderr_message.hpp"
#include "fastpath/forward/real_library.hpp"
#include "fastpath/forward/trampolines.hpp"

namespace busbw::fastpath {
namespace {

// NCCL's numbers for its results.
constexpr int kSystemError = 2;
constexpr int kInvalidUsage = 5;

/// What callers get who call a function that is not there.
enum class ReturnKind { result, text, nothing };

ReturnKind returns(std::string_view name) {
  if (name.starts_with('p')) name.remove_prefix(1);
  constexpr std::array<std::string_view, 2> texts{"ncclGetErrorString", "ncclGetLastError"};
  if (std::ranges::find(texts, name) != texts.end()) return ReturnKind::text;
  // Nothing at all, a number or a pointer, or three ints that are a team.
  constexpr std::array<std::string_view, 7> others{
      "ncclLLA2ACalcSlots",        "ncclParamDumpAll",   "ncclParamEnvPluginGet",     "ncclParamIsCacheDisabled",
      "ncclParamRegistryInstance", "ncclResetDebugInit", "ncclResetDebugInitInternal"};
  if (name.starts_with("ncclTeam") || std::ranges::find(others, name) != others.end()) return ReturnKind::nothing;
  return ReturnKind::result;
}

/// Both registers of a result are zero, whatever its type is.
__int128 nothing() { return 0; }
int no_library() { return kSystemError; }
int no_function() { return kInvalidUsage; }
const char* no_library_text() { return "libbusbw_nccl.so has found no NCCL"; }
const char* no_function_text() { return "this NCCL tells no error"; }

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* without_library(ReturnKind kind) {
  if (kind == ReturnKind::text) return address_of(no_library_text);
  return kind == ReturnKind::result ? address_of(no_library) : address_of(nothing);
}

void* without_function(ReturnKind kind) {
  if (kind == ReturnKind::text) return address_of(no_function_text);
  return kind == ReturnKind::result ? address_of(no_function) : address_of(nothing);
}

void say_missing(const RealLibrary& real, const Export& function) noexcept try {
  print_stderr("libbusbw_nccl.so",
           fmt::format("{} has no {}, so that calls of it fail: install NCCL {} or later, which has it", real.named(),
                       function.name, function.since));
} catch (const std::exception&) {
  // Without memory for a sentence the error that its caller gets must do.
}

}  // namespace

void* resolve_export(const Export& function, std::atomic<void*>& target) noexcept {
  const ReturnKind kind = returns(function.name);
  const RealLibrary* const real = real_library();
  if (!real) return without_library(kind);
  void* const found = real->find(function.name);
  void* const next = found ? found : without_function(kind);
  // Of threads that race to the first call one writes it first.
  if (target.exchange(next, std::memory_order_acq_rel) != next && !found) say_missing(*real, function);
  return next;
}

}  // namespace busbw::fastpath
