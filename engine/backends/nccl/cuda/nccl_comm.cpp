// Joins and leaves a communicator, and turns NCCL's results into error messages.
#include "backends/nccl/cuda/nccl_comm.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>

#include "backends/nccl/cuda/nccl_join.hpp"
#include "backends/nccl/gpus/device_errors.hpp"
#include "backends/nccl/lifecycle/init_roots.hpp"
#include "common/os/ticker.hpp"
#include "common/support/error.hpp"
#include "rendezvous/team/wait.hpp"

namespace busbw {

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::int8: return ncclInt8;
    case Dtype::uint8: return ncclUint8;
    case Dtype::int32: return ncclInt32;
    case Dtype::uint32: return ncclUint32;
    case Dtype::int64: return ncclInt64;
    case Dtype::uint64: return ncclUint64;
    case Dtype::float16: return ncclFloat16;
    case Dtype::float32: return ncclFloat32;
    case Dtype::float64: return ncclFloat64;
    case Dtype::bfloat16: return ncclBfloat16;
    case Dtype::f8e4m3: return ncclFloat8e4m3;
    case Dtype::f8e5m2: return ncclFloat8e5m2;
  }
  throw std::logic_error("nccl_type: not a Dtype");
}

NcclComm::NcclComm(const NcclLibrary& library, const NcclOptions& flags, const Team& world, Team& group,
                   std::string rank_text, LiveCommunicators& live_communicators)
    : library_(library),
      world_(world),
      rank_text_(std::move(rank_text)),
      live_communicators_(live_communicators),
      survives_losses_(flags.survives_losses && reads_config(library)) {
  if (flags.survives_losses) return;  // `rejoin` follows
  check(join(flags, group), "ncclCommInitRank");
}

ncclResult_t NcclComm::join(const NcclOptions& flags, Team& group) {
  const int roots = default_roots(group.size(), static_cast<bool>(library_.call.comm_init_rank_scalable));
  auto [result, ids] = share_unique_ids(library_, group, roots);
  check(result, "ncclGetUniqueId");
  result = join_communicator(library_, flags, ids, group.rank(), group.size(), &comm_);
  if (result == ncclSuccess || result == ncclInProgress) live_communicators_.add(world_.rank(), comm_);
  return result;
}

ConnectionProblem NcclComm::rejoin(const NcclOptions& flags, Team& group, double limit_s) {
  abort();
  ncclResult_t result = join(flags, group);
  if (!survives_losses_) {  // the other ranks are in the same blocking call, so an error must end the job
    check(result, "ncclCommInitRank");
    return {};
  }
  if (result == ncclInProgress) result = finish_calls(limit_s);
  if (result == ncclSuccess) return {};
  const bool has_timed_out = result == ncclInProgress;
  if (!has_timed_out && !may_be_error_of_peer(result)) check(result, "ncclCommInitRank");  // throws
  abort();
  if (has_timed_out)
    return {fmt::format("{}: ncclCommInitRank did not end within {:g} s; raise -T, or check the network of the host",
                        rank_text_, limit_s),
            /*follows_from_peer=*/true};
  return {failure_text(result, "ncclCommInitRank"), /*follows_from_peer=*/result == ncclRemoteError};
}

void NcclComm::abort() {
  if (comm_) library_.call.comm_abort(release());
}

ncclResult_t NcclComm::finish_calls(double limit_s) const {
  if (!survives_losses_) return ncclSuccess;
  std::optional<TickLimit> limit;  // most calls are done before a timer is worth its cost
  for (;;) {
    const ncclResult_t current = state();
    if (current != ncclInProgress) return current;
    throw_if_aborted(world_);
    if (!limit) limit.emplace(limit_s);
    if (limit->has_passed()) return current;
    std::this_thread::yield();
  }
}

ncclResult_t NcclComm::state() const {
  ncclResult_t async_state = ncclSuccess;
  const ncclResult_t result = library_.call.comm_get_async_error(comm_, &async_state);
  if (result == ncclSuccess) return async_state;
  if (!survives_losses_) check(result, "ncclCommGetAsyncError");
  return result;
}

NcclComm::NcclComm(const NcclLibrary& library, const Team& world, std::string rank_text,
                   LiveCommunicators& live_communicators, ncclComm_t comm)
    : library_(library),
      world_(world),
      rank_text_(std::move(rank_text)),
      live_communicators_(live_communicators),
      comm_(comm) {
  if (comm_) live_communicators_.add(world_.rank(), comm_);
}

ncclComm_t NcclComm::release() {
  live_communicators_.remove(comm_);
  return std::exchange(comm_, nullptr);
}

NcclComm::~NcclComm() {
  if (!comm_) return;
  // ncclCommDestroy may wait for the other ranks of the node. Except in the last case, one of them may be lost.
  if (world_.aborted()) {
    abort();
  } else if (!ends_normally()) {
    release();  // left alone, ends with the process
  } else if (survives_losses_) {
    abort();
  } else {
    library_.call.comm_destroy(release());
  }
}

bool NcclComm::ends_normally() const { return !world_.aborted() && std::uncaught_exceptions() == 0; }

bool NcclComm::supports_puts() const {
  if (!library_.call.comm_query_properties || library_.version < CommProperties::kSince) return true;
  CommProperties properties;
  properties.version = static_cast<unsigned>(std::min(library_.version, CommProperties::kVersion));
  // A library that no longer knows this version of the properties may have puts.
  const bool is_known = library_.call.comm_query_properties(comm_, &properties) == ncclSuccess;
  return !is_known || properties.host_rma_support;
}

void NcclComm::check_call(ncclResult_t result, const char* activity) const {
  if (result == ncclInProgress && survives_losses_) return;  // finish_calls() waits for the end of the call
  check(result, activity);
}

void NcclComm::check(ncclResult_t result, const char* activity) const {
  if (result == ncclSuccess) return;
  // The call may have returned before the operation was in the stream, so its time cannot be measured.
  if (result == ncclInProgress)
    throw EnvironmentError(
        fmt::format("{}: {} returned before it was done, because NCCL_COMM_BLOCKING=0 is set; unset it, also in "
                    "/etc/nccl.conf and ~/.nccl.conf",
                    rank_text_, activity));
  // After a GPU is lost, every later CUDA call fails as well, and CUDA's error is more specific than NCCL's. A stream
  // is queried to get it. cudaGetLastError would not return it, because NCCL contains its own CUDA runtime.
  const cudaError_t cuda_error = result == ncclUnhandledCudaError ? cudaStreamQuery(cudaStreamPerThread) : cudaSuccess;
  if (is_device_lost(cudaGetErrorName(cuda_error)))
    throw EnvironmentError(
        device_error_message(rank_text_, activity, cudaGetErrorName(cuda_error), cudaGetErrorString(cuda_error)));
  throw EnvironmentError(failure_text(result, activity));
}

std::string NcclComm::failure_text(ncclResult_t result, const char* activity) const {
  const std::string last_error = library_.last_error();
  return fmt::format("{}: {} failed: {}{}; {}", rank_text_, activity, library_.call.get_error_string(result),
                     last_error.empty() ? "" : ": " + last_error, remedy_of_library_error(last_error));
}

void NcclComm::check_async() const {
  const ncclResult_t async_state = state();
  if (async_state == ncclRemoteError) throw Error(ExitCode::rank_lost, failure_text(async_state, "a collective"));
  check(async_state, "a collective");
}

}  // namespace busbw
