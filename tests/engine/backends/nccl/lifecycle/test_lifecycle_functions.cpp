#include "backends/nccl/lifecycle/lifecycle_functions.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string_view>

using namespace busbw;

namespace {

std::string missing(CreationKind kind, LifecycleCall call, const std::set<std::string_view>& functions) {
  return missing_nccl_lifecycle_call(kind, call, "NCCL 2.26.2 (/lib/libnccl.so.2)",
                                     [&](const char* function) { return functions.contains(function); });
}

}  // namespace

TEST_CASE("lifecycle: a call that the library lacks names function, library and the version to use") {
  CHECK(missing(CreationKind::shrink, LifecycleCall::create, {"ncclCommSplit"}) ==
        "NCCL 2.26.2 (/lib/libnccl.so.2) has no ncclCommShrink; use NCCL 2.27 or later");
  CHECK(missing(CreationKind::grow, LifecycleCall::create, {"ncclCommGrow"}) ==
        "NCCL 2.26.2 (/lib/libnccl.so.2) has no ncclCommGetUniqueId; use NCCL 2.29 or later");
  CHECK(missing(CreationKind::split, LifecycleCall::create, {"ncclCommSplit"}) == "");
  CHECK(missing(CreationKind::init, LifecycleCall::finalize, {}) ==
        "NCCL 2.26.2 (/lib/libnccl.so.2) has no ncclCommFinalize; use NCCL 2.14 or later");
  CHECK(missing(CreationKind::init, LifecycleCall::create, {}) == "");
  CHECK(missing(CreationKind::init, LifecycleCall::rendezvous, {}) == "");
  CHECK(missing(CreationKind::split, LifecycleCall::rendezvous, {}) != "");
}

TEST_CASE("lifecycle: names of the functions") {
  CHECK(nccl_lifecycle_function(CreationKind::init, LifecycleCall::create, true) == "ncclCommInitRankScalable");
  CHECK(nccl_lifecycle_function(CreationKind::init, LifecycleCall::create, false) == "ncclCommInitRank");
  CHECK(nccl_lifecycle_function(CreationKind::grow, LifecycleCall::create, true) == "ncclCommGrow");
  CHECK(nccl_lifecycle_function(CreationKind::split, LifecycleCall::destroy, true) == "ncclCommDestroy");
  CHECK(nccl_lifecycle_function(CreationKind::init, LifecycleCall::rendezvous, true) == "");
}
