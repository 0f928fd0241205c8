// Measures flows on request. The ranks repeat two steps: rank 0 broadcasts an instruction, and all ranks follow it.
// While no request arrives, rank 0 sends an instruction to wait every second. So the watchdog sees progress, and all
// ranks notice an abort.
#include "flows/server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "backends/nccl/flow_paths.hpp"
#include "common/support/error.hpp"
#include "common/values/quantity.hpp"
#include "flows/cluster.hpp"
#include "flows/protocol.hpp"
#include "flows/round_sequence.hpp"
#include "measure/clock.hpp"
#include "measure/sampling/series_sampling.hpp"
#include "output/text_stream.hpp"
#include "rendezvous/team/wait.hpp"
#include "verify/reduction_values.hpp"

namespace busbw {
namespace {

constexpr Dtype kDtype = Dtype::uint8;  // so a number of elements is also a number of bytes
constexpr int kPollMs = 100;
constexpr int kPollsPerWait = 10;  // one second
constexpr std::size_t kMaxRequestBytes = std::size_t{1} << 28;

/// Peers that one rank has given up, with the reasons (Communicator::failed_peers).
using PeerFailures = std::vector<std::pair<int, std::string>>;

/// Returns the failed pairs and their reasons. `peer_failures`: those of each rank. If both ranks of a pair have a
/// reason, keeps that of the lower rank, which knows the details over sockets.
FailedPairs merge_peer_failures(const std::vector<PeerFailures>& peer_failures) {
  FailedPairs pairs;
  for (std::size_t rank = 0; rank < peer_failures.size(); ++rank)
    for (const auto& [peer, reason] : peer_failures[rank])
      pairs.emplace(pair_of({static_cast<int>(rank), peer}), reason);
  return pairs;
}

using LostRanks = std::map<int, Loss>;

/// Color with which all living ranks call Team::split. It is not 0, because Team::split gives lost ranks the color 0.
constexpr int kLivingColor = 1;

/// Next step of all ranks.
struct Instruction {
  enum class Kind { wait, connect, measure, end };
  Kind kind = Kind::wait;
  std::uint64_t size_bytes = 0;
  int iterations = 0;
  std::vector<Flow> flows = {};

  /// Members that `broadcast_value` sends.
  static auto members(auto& self) { return std::tie(self.kind, self.size_bytes, self.iterations, self.flows); }
};

/// Lines that arrive on a descriptor.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  /// Returns the next line, or nothing if none arrives within about a second. Throws JobAborted after an abort, and
  /// UsageError if a line is too long.
  std::optional<std::string> next(const Team& team) {
    for (int poll_count = 0; poll_count < kPollsPerWait; ++poll_count) {
      if (const auto end = text_.find('\n'); end != text_.npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      if (has_ended_) return std::nullopt;
      throw_if_aborted(team);
      read_once();
    }
    return std::nullopt;
  }
  /// True after the last line.
  bool has_ended() const { return has_ended_ && text_.find('\n') == text_.npos; }

 private:
  void read_once() {
    pollfd entry{descriptor_, POLLIN, 0};
    if (poll(&entry, 1, kPollMs) <= 0) return;
    char chunk[1 << 16];
    const ssize_t count = read(descriptor_, chunk, sizeof chunk);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    has_ended_ = count <= 0;
    if (count > 0) text_.append(chunk, static_cast<std::size_t>(count));
    if (text_.size() > kMaxRequestBytes) throw UsageError("a request is longer than 256 MiB; send one per line");
  }

  int descriptor_;
  std::string text_;  // received and not returned yet
  bool has_ended_ = false;
};

/// Rank 0's side of the protocol: requests become instructions, and reports become answers.
class FlowServer {
 public:
  FlowServer(const Job& job, const Team& world, const FlowService& service, FlowCluster cluster,
             std::uint64_t max_bytes)
      : job_(job),
        world_(world),
        requests_(service.requests_fd),
        answers_(service.answers_fd, [&world] { return world.aborted(); }),
        cluster_(std::move(cluster)),
        max_bytes_(max_bytes) {}

  /// Returns the instruction to connect at the beginning, and after a failure or a loss. Otherwise returns the next
  /// round of the last request. If no round is left, reads the next request: answers it at once, or returns its first
  /// round. Returns the instruction to wait if no request arrives within a second.
  Instruction next_instruction() {
    const std::size_t losses = job_.lost_ranks().size();
    if (needs_connection_ || losses != known_losses_) {
      needs_connection_ = false;
      known_losses_ = losses;
      return {Instruction::Kind::connect};
    }
    if (!rounds_.has_ended()) return next_round();
    const auto line = requests_.next(world_);
    if (!line) return {requests_.has_ended() ? Instruction::Kind::end : Instruction::Kind::wait};
    try {
      const Request request = parse_request(*line);
      if (std::holds_alternative<EndRequest>(request)) return {Instruction::Kind::end};
      if (const auto* measure = std::get_if<MeasureRequest>(&request)) return begin_rounds(*measure);
      answers_.write(cluster_answer(cluster_, cluster_.lost_gpus(job_.lost_ranks()), flow_environment()));
    } catch (const UsageError& error) {
      answers_.write(error_answer(error.what()));
    }
    return {Instruction::Kind::wait};
  }
  /// Throws EnvironmentError if a rank could not connect and no new loss explains this. `problems`: that of each rank.
  /// `unreachable`: the peers that each rank could not reach. Their flows are left out of all rounds, because after
  /// each failure in a round, all ranks must connect again.
  void finish_connection(std::vector<ConnectionProblem> problems, const std::vector<PeerFailures>& unreachable) {
    failed_pairs_.merge(merge_peer_failures(unreachable));
    if (job_.lost_ranks().size() > known_losses_) return;  // the next instruction is to connect again
    std::erase_if(problems, [](const ConnectionProblem& problem) { return problem.reason.empty(); });
    if (problems.empty()) return;
    // Report a cause if a rank knows it: a rank that only waited for others has follows_from_peer, and sorts last.
    throw EnvironmentError(std::ranges::min_element(problems, {}, &ConnectionProblem::follows_from_peer)->reason);
  }
  /// Decides from the failures of the measured round which rounds follow. After the last round, answers the request
  /// with the times of the receivers. `peer_failures`: the peers that each rank has given up.
  void finish_round(const std::vector<RankReport>& reports, const std::vector<PeerFailures>& peer_failures) {
    const FailedPairs failures = rounds_.failures_of_round(merge_peer_failures(peer_failures));
    needs_connection_ = !failures.empty();
    const LostRanks lost = job_.lost_ranks();
    const auto has_failed = [&](const Flow& flow) { return !failure_of(flow, lost).empty(); };
    // A rank that waits for a lost rank keeps its other peers waiting, so a new loss explains all failures of the
    // round.
    const bool has_new_loss = lost.size() > known_losses_;
    const bool is_round_affected = !failures.empty() || std::ranges::any_of(rounds_.next_round(), has_failed);
    const bool must_repeat_round = has_new_loss && is_round_affected;
    if (!must_repeat_round) failed_pairs_.merge(rounds_.finish_round(failures));
    rounds_.remove_flows(has_failed);
    if (rounds_.has_ended()) answer_request(reports);
  }
  void answer_failure(const std::string& message) {
    answers_.write(error_answer(message, cluster_.lost_gpus(job_.lost_ranks())));
  }

 private:
  /// Returns the reason why a flow cannot be measured, or an empty string.
  std::string failure_of(const Flow& flow, const LostRanks& lost) const {
    for (const int end : {flow.sender, flow.receiver})
      if (const auto entry = lost.find(end); entry != lost.end()) return entry->second.reason;
    for (const FailedPairs* pairs : {&failed_pairs_, &rounds_.joint_failures()})
      if (const auto failed = pairs->find(pair_of(flow)); failed != pairs->end()) return failed->second;
    return {};
  }
  Instruction begin_rounds(const MeasureRequest& request) {
    start_s_ = monotonic_s();
    id_ = request.id;
    requested_flows_ = cluster_.flows_between(request.flows);
    const std::size_t max_flows = max_flows_to_one_rank(requested_flows_);
    if (request.size_bytes > max_bytes_ / max_flows)
      throw UsageError(
          fmt::format("{} flows of {} to one GPU need more than its buffer of {}; use a smaller "
                      "size_bytes, or raise -e (--maxbytes)",
                      max_flows, size_text(request.size_bytes), size_text(max_bytes_)));
    size_bytes_ = request.size_bytes;
    iterations_ = request.iterations;
    rounds_ = RoundSequence(requested_flows_);
    return next_round();
  }
  /// Returns the instruction of the next round, without flows that cannot be measured. If no flow is left, answers the
  /// request and returns the instruction to wait.
  Instruction next_round() {
    const LostRanks lost = job_.lost_ranks();
    rounds_.remove_flows([&](const Flow& flow) { return !failure_of(flow, lost).empty(); });
    if (!rounds_.has_ended()) return {Instruction::Kind::measure, size_bytes_, iterations_, rounds_.next_round()};
    answer_request({});
    return {Instruction::Kind::wait};
  }
  /// Answers the last request to measure. `reports`: those of all ranks in its last round; empty if all flows have
  /// failed.
  void answer_request(const std::vector<RankReport>& reports) {
    const LostRanks lost = job_.lost_ranks();
    std::vector<FlowResult> results;
    for (const Flow& flow : requested_flows_) {
      FlowResult& result = results.emplace_back();
      result.error = failure_of(flow, lost);
      if (result.error.empty()) result.times_s = reports[static_cast<std::size_t>(flow.receiver)].samples.operation_s;
    }
    answers_.write(measure_answer(id_, results, cluster_.lost_gpus(lost), monotonic_s() - start_s_));
  }

  const Job& job_;
  const Team& world_;
  LineReader requests_;
  TextStream answers_;
  FlowCluster cluster_;
  std::uint64_t max_bytes_;
  // Of the last request to measure:
  std::int64_t id_ = 0;
  double start_s_ = 0;
  std::uint64_t size_bytes_ = 0;
  int iterations_ = 0;
  std::vector<Flow> requested_flows_;
  RoundSequence rounds_;  // of the requested flows that can be measured

  FailedPairs failed_pairs_;  // of all requests
  std::size_t known_losses_ = 0;  // number of lost ranks that the last connection leaves out
  bool needs_connection_ = true;
};

/// Measures rounds on one rank.
class RoundRunner {
 public:
  RoundRunner(Team& world, Communicator& communicator)
      : world_(world), communicator_(communicator), values_(kDtype, Redop::sum, communicator.size()) {}

  /// Measures one round. Returns the reports of all ranks on rank 0, and none on other ranks.
  std::vector<RankReport> measure(const Instruction& instruction) {
    const auto exchange = make_flow_exchange(instruction.flows, communicator_.rank());
    const Shape shape = exchange->shape(instruction.size_bytes, size_bytes(kDtype), world_.size());
    const std::size_t used_bytes = shape.recv_count;  // an element is a byte
    fill_buffers(used_bytes);
    // Iterations do not rotate through the buffers, so that only filled memory is used.
    const CaseBuffers buffers(communicator_, shape, kDtype, used_bytes, /*unalign_elements=*/0);
    RunSettings settings;
    settings.iterations = instruction.iterations;
    std::vector<RankReport> reports(world_.rank() == 0 ? static_cast<std::size_t>(world_.size()) : 0);
    sample_case(world_, communicator_,
                {*exchange, buffers, kDtype, Redop::sum, /*root=*/-1, Placement::out_of_place, communicator_.size()},
                settings, reports);
    return reports;
  }

 private:
  /// Fills the buffers up to `bytes`, because a first access to memory takes longer than the later ones.
  void fill_buffers(std::size_t bytes) {
    bytes += 2 * kGuardBytes;
    if (bytes <= filled_bytes_) return;
    for (const auto buffer : {communicator_.send_buffer(), communicator_.recv_buffer()})
      communicator_.fill(buffer.data() + filled_bytes_, values_.contribution(communicator_.rank(), 0), filled_bytes_,
                         bytes - filled_bytes_);
    communicator_.synchronize();
    filled_bytes_ = bytes;
  }

  Team& world_;
  Communicator& communicator_;
  ReductionValues values_;
  std::size_t filled_bytes_ = 0;
};

}  // namespace

void serve_flows(Job& job, Team& world, Communicator& communicator, const FlowService& service, std::uint64_t max_bytes,
                 const RankLocation& location, const std::function<std::string()>& failure_message) {
  const bool can_lose_peers = communicator.give_up_peers_after(service.flow_limit_s);
  auto locations = gather_values(world, location);
  std::optional<FlowServer> server;  // only on rank 0
  job.tolerate_losses(can_lose_peers);
  if (world.rank() == 0) {
    // A lost rank sends no location, but the job knows its host.
    for (const auto& [rank, loss] : job.lost_ranks()) locations[static_cast<std::size_t>(rank)].host = loss.host;
    server.emplace(job, world, service, FlowCluster(locations), max_bytes);
  }
  RoundRunner runner(world, communicator);
  for (;;) {
    const Instruction instruction = broadcast_value(world, server ? server->next_instruction() : Instruction{});
    if (instruction.kind == Instruction::Kind::end) return;
    if (instruction.kind == Instruction::Kind::wait) continue;
    try {
      if (instruction.kind == Instruction::Kind::connect) {
        world.enter(Phase::initialisation);
        const auto living = world.split(kLivingColor);
        const auto problems = gather_values(world, communicator.reconnect(*living));
        const auto unreachable = gather_values(world, communicator.failed_peers());
        if (server) server->finish_connection(problems, unreachable);
        continue;
      }
      const std::vector<RankReport> reports = runner.measure(instruction);
      const auto peer_failures = gather_values(world, communicator.failed_peers());
      world.enter(Phase::report);
      if (server) server->finish_round(reports, peer_failures);
    } catch (...) {
      if (server) server->answer_failure(failure_message());
      throw;
    }
  }
}

}  // namespace busbw
