// Creates, uses and ends communicators with NCCL, one call at a time, so that comm_ops can time each call.
#include "backends/nccl/cuda/nccl_lifecycle.hpp"

#include <cstring>
#include <numeric>
#include <utility>

#include "backends/nccl/cuda/cuda.hpp"
#include "backends/nccl/cuda/nccl_comm.hpp"
#include "backends/nccl/cuda/nccl_join.hpp"
#include "backends/nccl/lifecycle/lifecycle_functions.hpp"

namespace busbw {
namespace {

class NcclLifecycle final : public CommunicatorLifecycle {
 public:
  NcclLifecycle(const NcclLibrary& library, const NcclOptions& flags, const Team& world, std::string rank_text,
                LiveCommunicators& live_communicators, std::size_t max_bytes)
      : library_(library),
        flags_(flags),
        world_(world),
        rank_text_(std::move(rank_text)),
        live_communicators_(live_communicators),
        input_(max_bytes, rank_text_, "an input"),
        result_(max_bytes, rank_text_, "a result"),
        stream_(/*use_null_stream=*/false, rank_text_) {}

  void rendezvous(const Creation& creation, LifecycleCommunicator* parent) override {
    if (creation.kind == CreationKind::init) {
      SharedUniqueIds shared = share_unique_ids(library_, creation.team, creation.roots);
      ids_ = std::move(shared.ids);
      return check(shared.result, "ncclGetUniqueId");
    }
    ncclResult_t result = ncclSuccess;
    std::vector<ncclUniqueId> ids(1);
    if (creation.team.rank() == 0) result = library_.call.comm_get_unique_id(handle_of(parent), ids.data());
    check(result, "ncclCommGetUniqueId");
    ids_ = broadcast_value(creation.team, ids);
  }

  std::unique_ptr<LifecycleCommunicator> create(const Creation& creation, LifecycleCommunicator* parent) override {
    ncclComm_t comm = nullptr;
    const ncclResult_t result = call_create(creation, parent, &comm);
    auto created = std::make_unique<Handle>(*this, comm);
    check(result, nccl_lifecycle_function(creation.kind, LifecycleCall::create, ids_.size() > 1).c_str());
    return created;
  }

  void set_input(std::span<const std::int32_t> elements) override {
    elements_ = elements.size();
    check_cuda(cudaMemcpy(input_.data(), elements.data(), elements.size_bytes(), cudaMemcpyHostToDevice), rank_text_,
               "copying to the GPU");
    constexpr int kByteOfMinusOne = 0xff;
    check_cuda(cudaMemset(result_.data(), kByteOfMinusOne, elements.size_bytes()), rank_text_, "filling a buffer");
    check_cuda(cudaDeviceSynchronize(), rank_text_, "filling a buffer");
  }
  std::vector<std::int32_t> result() override {
    std::vector<std::int32_t> elements(elements_);
    check_cuda(cudaMemcpy(elements.data(), result_.data(), elements_ * sizeof(std::int32_t), cudaMemcpyDeviceToHost),
               rank_text_, "copying from the GPU");
    return elements;
  }

 private:
  class Handle final : public LifecycleCommunicator {
   public:
    Handle(NcclLifecycle& lifecycle, ncclComm_t comm)
        : lifecycle_(lifecycle),
          comm_(lifecycle.library_, lifecycle.world_, lifecycle.rank_text_, lifecycle.live_communicators_, comm) {}
    ncclComm_t get() const { return comm_.get(); }
    int rank() const override {
      int rank = 0;
      comm_.check(call().comm_user_rank(comm_.get(), &rank), "ncclCommUserRank");
      return rank;
    }
    void all_reduce() override {
      comm_.check(call().all_reduce(lifecycle_.input_.data(), lifecycle_.result_.data(), lifecycle_.elements_,
                                    ncclInt32, ncclSum, comm_.get(), lifecycle_.stream_.get()),
                  "ncclAllReduce");
    }
    void wait() override {
      wait_for_stream(lifecycle_.stream_, lifecycle_.world_, lifecycle_.rank_text_);
      comm_.check_async();
    }
    void finalize() override { comm_.check(call().comm_finalize(comm_.get()), "ncclCommFinalize"); }
    void destroy() override { comm_.check(call().comm_destroy(comm_.release()), "ncclCommDestroy"); }
    void abort() override { comm_.check(call().comm_abort(comm_.release()), "ncclCommAbort"); }

   private:
    const NcclFunctions& call() const { return lifecycle_.library_.call; }

    NcclLifecycle& lifecycle_;
    NcclComm comm_;
  };

  static ncclComm_t handle_of(LifecycleCommunicator* communicator) {
    return communicator ? static_cast<Handle*>(communicator)->get() : nullptr;
  }

  /// Throws like NcclComm::check, through an object without a communicator.
  void check(ncclResult_t result, const char* activity) const {
    NcclComm(library_, world_, rank_text_, live_communicators_, nullptr).check(result, activity);
  }

  ncclResult_t call_create(const Creation& creation, LifecycleCommunicator* parent, ncclComm_t* comm) {
    const int rank = creation.team.rank();
    switch (creation.kind) {
      case CreationKind::init: return join_communicator(library_, flags_, ids_, rank, creation.team.size(), comm);
      case CreationKind::split:
        return library_.call.comm_split(handle_of(parent), /*color=*/creation.members_of(rank).first, /*key=*/rank,
                                        comm, nullptr);
      case CreationKind::shrink: {
        std::vector<int> excluded(static_cast<std::size_t>(creation.team.size() - creation.kept_ranks));
        std::iota(excluded.begin(), excluded.end(), creation.kept_ranks);
        return library_.call.comm_shrink(handle_of(parent), excluded.data(), static_cast<int>(excluded.size()), comm,
                                         nullptr, creation.aborts_parent ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT);
      }
      case CreationKind::grow: {
        // Ranks of the parent keep their numbers, so they pass -1. Of these ranks, only rank 0 passes the id, which it
        // has created. New ranks pass a number and the id.
        const bool passes_id = !parent || rank == 0;
        return grow_communicator(library_, flags_, handle_of(parent), creation.team.size(),
                                 passes_id ? ids_.data() : nullptr, parent ? -1 : rank, comm);
      }
    }
    return ncclInvalidArgument;
  }

  const NcclLibrary& library_;
  const NcclOptions& flags_;
  const Team& world_;
  std::string rank_text_;
  LiveCommunicators& live_communicators_;
  DeviceMemory input_;
  DeviceMemory result_;
  CudaStream stream_;
  std::size_t elements_ = 0;
  std::vector<ncclUniqueId> ids_;  // of the next communicator
};

}  // namespace

std::unique_ptr<CommunicatorLifecycle> make_nccl_lifecycle(const NcclLibrary& library, const NcclOptions& flags,
                                                           const Team& world, std::string rank_text,
                                                           LiveCommunicators& live_communicators,
                                                           std::size_t max_bytes) {
  return std::make_unique<NcclLifecycle>(library, flags, world, std::move(rank_text), live_communicators, max_bytes);
}

}  // namespace busbw
