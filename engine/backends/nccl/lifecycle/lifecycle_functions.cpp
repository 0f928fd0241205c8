// NCCL's function for each call that comm_ops times, and the first version that has it.
#include "backends/nccl/lifecycle/lifecycle_functions.hpp"

#include <fmt/format.h>

#include <vector>

namespace busbw {
namespace {

/// Functions of a call that a library may lack, and the first version of NCCL with all of them.
struct NewFunctions {
  std::vector<const char*> names;
  const char* since;
};

NewFunctions new_functions(CreationKind kind, LifecycleCall call) {
  if (call == LifecycleCall::finalize) return {{"ncclCommFinalize"}, "2.14"};
  if (call != LifecycleCall::create) return {};
  switch (kind) {
    case CreationKind::init: return {};
    case CreationKind::split: return {{"ncclCommSplit"}, "2.18"};
    case CreationKind::shrink: return {{"ncclCommShrink"}, "2.27"};
    case CreationKind::grow: return {{"ncclCommGrow", "ncclCommGetUniqueId"}, "2.29"};
  }
  return {};
}

}  // namespace

std::string nccl_lifecycle_function(CreationKind kind, LifecycleCall call, bool has_several_roots) {
  switch (call) {
    case LifecycleCall::rendezvous: return "";
    case LifecycleCall::first_all_reduce:
    case LifecycleCall::next_all_reduce: return "ncclAllReduce";
    case LifecycleCall::destroy: return "ncclCommDestroy";
    case LifecycleCall::abort: return "ncclCommAbort";
    case LifecycleCall::finalize: return "ncclCommFinalize";
    case LifecycleCall::create: break;
  }
  if (kind == CreationKind::init) return has_several_roots ? "ncclCommInitRankScalable" : "ncclCommInitRank";
  return new_functions(kind, call).names.front();
}

std::string missing_nccl_lifecycle_call(CreationKind kind, LifecycleCall call, const std::string& library_text,
                                        const std::function<bool(const char*)>& has_function) {
  const bool has_only_parent_ranks = kind == CreationKind::split || kind == CreationKind::shrink;
  if (call == LifecycleCall::rendezvous && has_only_parent_ranks) return "a split or shrink needs no rendezvous";
  const NewFunctions functions = new_functions(kind, call);
  for (const char* name : functions.names)
    if (!has_function(name))
      return fmt::format("{} has no {}; use NCCL {} or later", library_text, name, functions.since);
  return "";
}

}  // namespace busbw
