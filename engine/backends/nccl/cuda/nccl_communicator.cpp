// Communicator of one rank. Operations become requests to the launch group. The thread of its leader calls NCCL for all
// ranks of the group (launch_group.hpp). Filling and comparing run in this thread.
#include "backends/nccl/cuda/nccl_communicator.hpp"

#include <algorithm>
#include <utility>

#include "backends/nccl/kernels/compute_kernels.hpp"
#include "backends/nccl/kernels/device_data.hpp"
#include "verify/host_data.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMaxTiles = 256;  // cached tiles (docs/explanation/correctness.md), of up to 128 KiB each
constexpr std::size_t kMaxCopyBytes = std::size_t{64} << 20;  // size of one copy when a wrong result is read
// Time limit of `reconnect`: kJoinLimitFactor times the limit of give_up_peers_after, plus kJoinSPerRank for each rank,
// because NCCL needs longer to join many ranks. It is at most kMaxJoinLimitFactor times the limit of
// give_up_peers_after, so at most 3 * 0.3 = 0.9 of -T (kFlowLimitShare). A rank that waits thus does not count as
// hanging.
constexpr double kJoinLimitFactor = 2;
constexpr double kJoinSPerRank = 0.05;
constexpr double kMaxJoinLimitFactor = 3;

// Operations that a rank may issue behind a closed gate without blocking. Two queues limit this number:
// - A stream accepts about 1,024 launches before the next one blocks. An operation of NCCL needs a few launches: the
//   kernel, and an event record and wait for each of NCCL's own streams. With copy engines it needs a copy and a signal
//   per peer, about 20 with 8 GPUs. NCCL's work ring of 1 MiB holds at least as many operations.
// - Over a network, NCCL's proxy threads move the data. Their queue has about 1,000 slots, and an operation takes
//   several slots for every channel and peer.
constexpr std::size_t kCapacityOnOneMachine = 40;
constexpr std::size_t kCapacityOverNetwork = 8;

}  // namespace

/// Graph that `end_capture` returns.
class NcclCommunicator::CapturedGraph final : public OperationGraph {
 public:
  CapturedGraph(std::shared_ptr<CudaGraph> graph, LaunchGroup::Member& member)
      : graph_(std::move(graph)), member_(member) {}
  void issue() override {
    IssueRequest& request = member_.next_request();
    request.kind = IssueRequest::Kind::issue_graph;
    request.graph = graph_;
    member_.submit();
  }

 private:
  std::shared_ptr<CudaGraph> graph_;
  LaunchGroup::Member& member_;
};

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, Team& world, Team& group,
                                   const NcclRankConfig& rank_config)
    : world_(world),
      group_(group),
      rank_text_(make_rank_text(world.rank(), rank_config.device.bus_id)),
      device_(rank_config.device.index),
      is_single_machine_(rank_config.is_single_machine),
      flags_(rank_config.flags),
      gate_enabled_(rank_config.gate_enabled),
      algorithm_observer_(rank_config.algorithm_observer),
      nvml_(rank_config.nvml),
      memory_(rank_config.flags.reports_memory, rank_config.nvml),
      send_(rank_config.first
                ? rank_config.first->send_
                : std::make_shared<NcclBuffer>(library, rank_config.buffer_bytes, rank_text_, "a send buffer")),
      recv_(rank_config.first
                ? rank_config.first->recv_
                : std::make_shared<NcclBuffer>(library, rank_config.buffer_bytes, rank_text_, "a receive buffer")),
      differing_words_(sizeof(unsigned long long), rank_text_, "a counter"),
      delay_end_(sizeof(unsigned long long), rank_text_, "a time"),
      stream_(rank_config.null_stream, rank_text_),
      progress_(rank_text_),
      gate_(rank_text_, stream_.get()),
      comm_(join(library, rank_config)),
      registration_(register_buffers(library, rank_config.flags)),
      device_comm_(make_device_comm(library, rank_config.flags)),
      issuer_(library, comm_,
              {rank_config.device.index, rank_text_, group.rank(), group.size(), stream_.get(), events_,
               registration_.get(), device_comm_.get()},
              gate_),
      own_launch_group_(rank_config.launch_group ? nullptr : std::make_unique<LaunchGroup>(1)),
      member_(rank_config.launch_group ? *rank_config.launch_group : *own_launch_group_, rank_config.group_index,
              issuer_, world) {}

// Each `record_` call charges the memory that was allocated since the previous call, to the buffers or to the library.
// The first call, before NCCL joins, charges the send and receive buffers.

NcclComm NcclCommunicator::join(const NcclLibrary& library, const NcclRankConfig& rank_config) {
  memory_.record_buffer_step();
  return NcclComm(library, rank_config.flags, world_, group_, rank_text_, *rank_config.live_communicators);
}

std::unique_ptr<NcclRegistration> NcclCommunicator::register_buffers(const NcclLibrary& library,
                                                                     const NcclOptions& flags) {
  memory_.record_library_step();
  if (flags.registration == RegistrationMode::none) return nullptr;
  auto created = std::make_unique<NcclRegistration>(library, comm_, rank_text_, flags.registration, *send_, *recv_);
  memory_.record_buffer_step();
  return created;
}

std::unique_ptr<DeviceComm> NcclCommunicator::make_device_comm(const NcclLibrary& library, const NcclOptions& flags) {
  if (!flags.kernel) return nullptr;
  auto created = std::make_unique<DeviceComm>(library, comm_, group_, rank_text_, flags, *registration_);
  memory_.record_library_step();
  return created;
}

NcclCommunicator::~NcclCommunicator() {
  // Another rank may have failed while this rank's gate was closed.
  gate_.open_for_good();
}

void NcclCommunicator::submit(IssueRequest::Kind kind, std::size_t number) {
  IssueRequest& request = member_.next_request();
  request.kind = kind;
  request.count = number;
  member_.submit();
}

void NcclCommunicator::submit(IssueRequest::Kind kind, const std::byte* send, std::byte* recv, std::size_t count,
                              Dtype dtype, Redop redop, int root) {
  IssueRequest& request = member_.next_request();
  request.kind = kind;
  request.send = send;
  request.recv = recv;
  request.count = count;
  request.dtype = dtype;
  request.redop = redop;
  request.root = root;
  member_.submit();
}

void NcclCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> recvs, Dtype dtype) {
  IssueRequest& request = member_.next_request();
  request.kind = IssueRequest::Kind::exchange;
  request.dtype = dtype;
  request.sends.assign(sends.begin(), sends.end());
  request.recvs.assign(recvs.begin(), recvs.end());
  member_.submit();
}

bool NcclCommunicator::give_up_peers_after(double limit_s) {
  if (!comm_.survives_losses()) return false;
  peer_limit_s_ = limit_s;
  issuer_.leave_after(limit_s);
  return true;
}

// NCCL has no operation that gives up a single peer, so all ranks leave their communicator and join a new one. This
// function also joins the first communicator.
ConnectionProblem NcclCommunicator::reconnect(Team& living) {
  const std::vector<int> ranks = all_gather_values(living, rank());
  const double limit_s =
      std::min(kJoinLimitFactor * peer_limit_s_ + kJoinSPerRank * living.size(), kMaxJoinLimitFactor * peer_limit_s_);
  ConnectionProblem problem = comm_.rejoin(flags_, living, limit_s);
  issuer_.continue_with(ranks);
  return problem;
}

std::optional<PutObstacle> NcclCommunicator::put_obstacle() const {
  if (!registration_ || !registration_->has_windows())
    return PutObstacle{"puts need buffers in symmetric windows; add -R 2"};
  if (comm_.supports_puts()) return std::nullopt;
  return PutObstacle{
      "NCCL reports that this communicator has no host RMA (hostRmaSupport): its GPUs and network "
      "cannot do it, or NCCL_NUM_RMA_CTX=0 is set; drop the flag, or measure on GPUs that NVLink joins",
      /*is_of_machine=*/true};
}

void NcclCommunicator::put(std::span<const Put> puts, std::span<const AwaitedPut> awaited, Dtype dtype) {
  IssueRequest& request = member_.next_request();
  request.kind = IssueRequest::Kind::put;
  request.dtype = dtype;
  request.puts.assign(puts.begin(), puts.end());
  request.awaited_puts.assign(awaited.begin(), awaited.end());
  member_.submit();
}

// `delay`, `compute_matrix_square` and `wait_for` call CUDA directly instead of submitting a request. So only a rank
// that issues its own operations (a launch group of one member) may use them.

void NcclCommunicator::delay(double seconds, bool overlapped) {
  auto* const end_ns = reinterpret_cast<unsigned long long*>(delay_end_.data());
  check_cuda(launch_delay(static_cast<unsigned long long>(seconds * 1e9), end_ns, overlapped, stream_.get()),
             rank_text_, "launching a kernel");
}

void NcclCommunicator::compute_matrix_square(float* product, const float* matrix, std::size_t order) {
  check_cuda(launch_square_matrix(product, matrix, static_cast<unsigned>(order), stream_.get()), rank_text_,
             "launching a kernel");
}

void NcclCommunicator::wait_for(Communicator& other) {
  auto& awaited = static_cast<NcclCommunicator&>(other);
  check_cuda(cudaEventRecord(awaited.progress_.get(), awaited.stream_.get()), rank_text_, "recording a CUDA event");
  check_cuda(cudaStreamWaitEvent(stream_.get(), awaited.progress_.get(), 0), rank_text_, "waiting for a CUDA event");
}

void NcclCommunicator::use_in_this_thread() { check_cuda(cudaSetDevice(device_), rank_text_, "choosing the GPU"); }

void NcclCommunicator::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) submit(IssueRequest::Kind::copy, from, to, bytes, Dtype::uint8);
}

void NcclCommunicator::synchronize() {
  submit(IssueRequest::Kind::synchronize);
  member_.flush();
}

std::unique_ptr<OperationGraph> NcclCommunicator::end_capture() {
  submit(IssueRequest::Kind::end_capture);
  submit(IssueRequest::Kind::instantiate_graph);
  member_.flush();
  return std::make_unique<CapturedGraph>(issuer_.take_graph(), member_);
}

void NcclCommunicator::reset(std::size_t count) {
  if (events_.size() >= count) return;
  member_.flush();  // the thread of the launch group's leader reads `events_` until it has issued all requests
  while (events_.size() < count) events_.emplace_back(rank_text_);
}

double NcclCommunicator::seconds_between(std::size_t from, std::size_t to) const {
  float elapsed_ms = 0;
  check_cuda(cudaEventElapsedTime(&elapsed_ms, events_[from].get(), events_[to].get()), rank_text_,
             "reading CUDA events");
  return elapsed_ms * 1e-3;
}

std::size_t NcclCommunicator::capacity() const {
  return is_single_machine_ ? kCapacityOnOneMachine : kCapacityOverNetwork;
}

const unsigned char* NcclCommunicator::copy_tile_to_device(const Tile& tile) {
  const auto cached = tiles_.find(tile);
  if (cached == tiles_.end()) {
    if (tiles_.size() >= kMaxTiles) {
      wait_for_stream(stream_, world_, rank_text_);
      tiles_.clear();
    }
    DeviceMemory copy(tile->size() + kTilePaddingBytes, rank_text_, "a tile of data");
    // Copy in the stream that reads the tile. A copy from pageable memory returns before the data has arrived, and this
    // stream waits for no other.
    check_cuda(cudaMemcpyAsync(copy.data(), tile->data(), tile->size(), cudaMemcpyHostToDevice, stream_.get()),
               rank_text_, "copying to the GPU");
    tiles_.emplace(tile, std::move(copy));
  }
  return reinterpret_cast<const unsigned char*>(tiles_.at(tile).data());
}

void NcclCommunicator::fill(std::byte* address, const DataStream& stream, std::uint64_t first, std::size_t elements) {
  member_.flush();  // earlier operations must be issued first
  const DeviceRange range{
      reinterpret_cast<unsigned char*>(address),  copy_tile_to_device(stream.tile), stream.seed, first, elements,
      static_cast<unsigned>(stream.element_bytes)};
  check_cuda(launch_fill(range, stream_.get()), rank_text_, "filling a buffer");
}

void NcclCommunicator::compare(const std::byte* address, const DataStream& stream, std::uint64_t first,
                               std::size_t elements, std::uint64_t index_base, Mismatches& mismatches) {
  if (elements == 0) return;
  member_.flush();
  const std::uint64_t differing_words = count_differing_words(address, stream, first, elements);
  if (differing_words == 0) return;
  const std::uint64_t earlier_count = mismatches.count;
  find_mismatches_on_host(address, stream, first, elements, index_base, mismatches);
  // Late data: the comparing kernel counts it as wrong, but it arrives before the copy to the host. Count it as wrong,
  // without its elements, which are no longer known.
  const std::uint64_t found_elements = mismatches.count - earlier_count;
  if (found_elements < differing_words) mismatches.add_vanished(index_base, differing_words - found_elements);
}

std::uint64_t NcclCommunicator::count_differing_words(const std::byte* address, const DataStream& stream,
                                                      std::uint64_t first, std::size_t elements) {
  // DeviceRange also serves to fill memory, so its pointer is not const. launch_compare only reads.
  auto* const memory = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(address));
  const DeviceRange range{memory,   copy_tile_to_device(stream.tile),           stream.seed, first,
                          elements, static_cast<unsigned>(stream.element_bytes)};
  auto* const counter = reinterpret_cast<unsigned long long*>(differing_words_.data());
  unsigned long long count = 0;
  check_cuda(cudaMemsetAsync(counter, 0, sizeof(count), stream_.get()), rank_text_, "clearing a counter");
  check_cuda(launch_compare(range, counter, stream_.get()), rank_text_, "comparing a buffer");
  check_cuda(cudaMemcpyAsync(&count, counter, sizeof(count), cudaMemcpyDeviceToHost, stream_.get()), rank_text_,
             "reading a counter");
  wait_for_stream(stream_, world_, rank_text_);
  return count;
}

void NcclCommunicator::find_mismatches_on_host(const std::byte* address, const DataStream& stream, std::uint64_t first,
                                               std::size_t elements, std::uint64_t index_base, Mismatches& mismatches) {
  const std::size_t max_chunk_elements = kMaxCopyBytes / stream.element_bytes;
  std::vector<std::byte> copy(std::min(max_chunk_elements, elements) * stream.element_bytes);
  for (std::size_t done = 0; done < elements; done += max_chunk_elements) {
    const std::size_t chunk_elements = std::min(max_chunk_elements, elements - done);
    check_cuda(cudaMemcpy(copy.data(), address + done * stream.element_bytes, chunk_elements * stream.element_bytes,
                          cudaMemcpyDeviceToHost),
               rank_text_, "copying from the GPU");
    compare_host(copy.data(), stream, first + done, chunk_elements, index_base + done, mismatches);
  }
}

}  // namespace busbw
