// One rank's run: join_and_run connects the rank, RankRun executes the cases of the sweep.
#include "run/rank_runner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "comm_ops/call_rows.hpp"
#include "common/os/environment.hpp"
#include "common/os/provenance.hpp"
#include "common/support/error.hpp"
#include "flows/server.hpp"
#include "interference/neighbor.hpp"
#include "measure/checker.hpp"
#include "measure/sampling/series_sampling.hpp"
#include "replay/replay_runner.hpp"
#include "run/make_row.hpp"
#include "run/rank_faults.hpp"
#include "watch/job_runner.hpp"

namespace busbw {
namespace {

RankInfo describe_rank(const RunPlan& plan, const Backend& backend, const std::optional<DeviceClockState>& clock_state,
                       int rank) {
  const int process = rank / plan.ranks_per_process();
  const Device device = backend.device(rank - plan.first_rank);
  return {.rank = rank,
          .group = plan.split.color(process),
          .process = process,
          .pid = getpid(),
          .host = host_name(),
          .device = device.index,
          .bus_id = device.bus_id,
          .device_name = device.name,
          .library = backend.library(),
          .max_clock_hz = clock_state ? clock_state->max_clock_hz : std::nullopt};
}

/// Fault of --fault, if it names this rank.
std::optional<Fault> fault_of(const RunPlan& plan, const Team& world) {
  const bool is_of_this_rank = plan.fault && plan.fault->rank == world.rank();
  return is_of_this_rank ? plan.fault : std::nullopt;
}

/// Throws UsageError if the communicator cannot do what -G or -H require, or EnvironmentError if the machine cannot.
void require_capabilities(const RunPlan& plan, const Backend& backend, const Communicator& communicator) {
  if (plan.settings.graph_launches > 0 && !communicator.can_capture())
    throw UsageError(fmt::format("-G {} (--cudagraph): the {} backend cannot capture operations here; drop it",
                                 plan.settings.graph_launches, backend.traits().name));
  if (plan.settings.rma_contexts == 0) return;
  const auto obstacle = communicator.put_obstacle();
  if (!obstacle) return;
  const std::string message =
      fmt::format("-H {} (--host_rma_implementation): {}", plan.settings.rma_contexts, obstacle->reason);
  if (obstacle->is_of_machine) throw EnvironmentError(message);
  throw UsageError(message);
}

/// One rank during the sweep. All ranks run the same cases in the same order. Rank 0 also makes the rows.
class RankRun {
 public:
  /// `ranks`: all ranks of the job, on rank 0; otherwise empty. `neighbor`: null if the plan has none.
  RankRun(const RunPlan& plan, Team& world, Communicator& communicator, Neighbor* neighbor, Reporter* reporter,
          const std::vector<RankInfo>& ranks)
      : plan_(plan),
        world_(world),
        communicator_(communicator),
        neighbor_(neighbor),
        reporter_(reporter),
        groups_(plan.split.groups(plan.settings.processes, plan.ranks_per_process())),
        fault_(fault_of(plan, world)) {
    if (fault_ && fault_->kind == Fault::Kind::delay)
      delayed_collective_ = make_delayed_collective(plan.collective, fault_->delay_us);
    for (const auto& [color, members] : groups_)
      ranks_of_largest_group_ = std::max(ranks_of_largest_group_, static_cast<int>(members.size()));
    for (const RankInfo& rank : ranks) ranks_by_group_[rank.group].push_back(rank);
  }

  void run_sweep() {
    for (const Configuration& configuration : plan_.sweep.configurations) {
      // Data of the ranks and expected results of the checks, for all sizes.
      ReductionValues values(configuration.dtype, configuration.redop, communicator_.size());
      fill_buffers(configuration, values);
      // 0 cycles (-N 0) are endless.
      for (int cycle = 0; plan_.sweep.cycles == 0 || cycle < plan_.sweep.cycles; ++cycle)
        for (const std::uint64_t size : plan_.sweep.sizes_bytes) run_case(configuration, values, size, cycle);
    }
    if (fault_ && plan_.settings.check_iterations > 0) require_effect(*fault_, has_changed_result_);
    enter(Phase::report);
    world_.barrier();
  }

 private:
  bool makes_rows() const { return world_.rank() == 0; }
  const Collective& collective() const { return delayed_collective_ ? *delayed_collective_ : plan_.collective; }

  void enter(Phase phase) {
    world_.enter(phase);
    communicator_.enter(phase);
  }

  /// Fills both buffers before timing, so that times include no first access to memory, and no operation reads NaN.
  /// Does nothing if they have data of the configuration's type and operator already.
  void fill_buffers(const Configuration& configuration, ReductionValues& values) {
    const std::pair data_kind{configuration.dtype, configuration.redop};
    if (filled_for_ == data_kind) return;
    filled_for_ = data_kind;
    enter(Phase::warmup);
    for (const auto buffer : {communicator_.send_buffer(), communicator_.recv_buffer()})
      fill_numbers(buffer, configuration.dtype, values);
    communicator_.synchronize();
  }

  void fill_numbers(std::span<std::byte> memory, Dtype dtype, ReductionValues& values) {
    communicator_.fill(memory.data(), values.contribution(communicator_.rank(), /*seed=*/0), /*first=*/0,
                       memory.size() / size_bytes(dtype));
  }

  CaseBuffers buffers_for(const Shape& shape, Dtype dtype) const {
    return CaseBuffers(communicator_, shape, dtype, plan_.max_bytes, plan_.settings.unalign_elements);
  }

  /// Measures and checks each placement of one case, then reports a row per group on rank 0.
  void run_case(const Configuration& configuration, ReductionValues& values, std::uint64_t requested_bytes, int cycle) {
    const std::size_t element_bytes = size_bytes(configuration.dtype);
    const Shape shape = plan_.collective.shape(requested_bytes / element_bytes, element_bytes, communicator_.size());
    const CaseBuffers buffers = buffers_for(shape, configuration.dtype);
    std::map<Placement, PlacementReport> reports_by_placement;
    for (const Placement placement : plan_.placements) {
      PlacementReport& report = reports_by_placement[placement];
      report = sample_case(configuration, placement, shape, buffers);
      check_placement(
          {plan_.collective, shape, configuration.dtype, configuration.redop, configuration.root, /*seed=*/0}, buffers,
          values, placement, report.ranks);
      // The check leaves patterns in the buffers, which must not be timed.
      fill_numbers(buffers.send_region(), configuration.dtype, values);
      fill_numbers(buffers.recv_region(placement), configuration.dtype, values);
    }
    if (!makes_rows()) return;
    CaseRows rows;
    for (const auto& [color, members] : groups_)
      rows.push_back(make_row(plan_, {configuration, requested_bytes, color, cycle, ranks_by_group_.at(color)},
                              take_reports_of_group(members, reports_by_placement),
                              exactness_for(configuration, values, members.size())));
    reporter_->report_rows(rows);
  }

  /// Samples one placement: the collective alone, and if the plan has them, the balanced operation or the collective
  /// next to its neighbor. The report has all ranks of the job on rank 0, and no ranks elsewhere.
  PlacementReport sample_case(const Configuration& configuration, Placement placement, const Shape& shape,
                              const CaseBuffers& buffers) {
    const auto sampled_case = [&](const Collective& operation, const CaseBuffers& operation_buffers) {
      return SampledCase{operation,          operation_buffers, configuration.dtype,    configuration.redop,
                         configuration.root, placement,         ranks_of_largest_group_};
    };
    PlacementReport report;
    report.ranks.resize(makes_rows() ? world_.size() : 0);
    std::vector<Series> series{{sampled_case(collective(), buffers), report.ranks}};
    std::optional<CaseBuffers> balanced_buffers;
    if (plan_.balanced || neighbor_) report.compared.resize(report.ranks.size());
    if (plan_.balanced) {
      const Shape balanced = balanced_shape(plan_, shape, size_bytes(configuration.dtype), communicator_.size());
      balanced_buffers = buffers_for(balanced, configuration.dtype);
      series.push_back({sampled_case(*plan_.balanced, *balanced_buffers), report.compared});
    }
    if (neighbor_) {  // --with excludes --skew
      neighbor_->prepare(++last_seed_);
      series.push_back({sampled_case(collective(), buffers), report.compared, neighbor_});
    }
    report.stopped_by = sample_series(world_, communicator_, series, plan_.settings);
    if (neighbor_) report.neighbors = gather_values(world_, neighbor_->take_activity());
    return report;
  }

  /// Moves the reports of a group's ranks out of the reports of all ranks. Only on rank 0.
  std::map<Placement, PlacementReport> take_reports_of_group(
      const std::vector<int>& members, std::map<Placement, PlacementReport>& reports_of_all) const {
    std::map<Placement, PlacementReport> reports_of_members;
    for (auto& [placement, all] : reports_of_all) {
      PlacementReport& report = reports_of_members[placement];
      report.stopped_by = all.stopped_by;
      for (const int member : members) {
        report.ranks.push_back(std::move(all.ranks[member]));
        if (!all.compared.empty()) report.compared.push_back(std::move(all.compared[member]));
        if (neighbor_) report.neighbors.push_back(all.neighbors[member]);
      }
    }
    return reports_of_members;
  }

  /// Exactness of the check in a group of `ranks` ranks. `values` belong to this rank's group, and other groups may
  /// have other sizes.
  std::string exactness_for(const Configuration& configuration, const ReductionValues& values,
                            std::size_t ranks) const {
    if (static_cast<int>(ranks) == communicator_.size()) return values.exactness();
    return ReductionValues(configuration.dtype, configuration.redop, static_cast<int>(ranks)).exactness();
  }

  /// Runs and checks the operation -c times, or until a check fails on any rank. Rank 0 stores the last results of all
  /// ranks in `reports`.
  void check_placement(RankCase rank_case, const CaseBuffers& buffers, ReductionValues& values, Placement placement,
                       std::vector<RankReport>& reports) {
    const bool has_defined_result = placement == Placement::out_of_place || plan_.collective.in_place_defined();
    if (!has_defined_result) return;
    Checker checker(communicator_, buffers, values, world_.rank());
    for (int iteration = 0; iteration < plan_.settings.check_iterations; ++iteration) {
      enter(Phase::check);
      rank_case.seed = ++last_seed_;
      checker.prepare(rank_case, placement);
      world_.barrier();
      if (neighbor_) neighbor_->start();
      world_.issued().next(buffers.region_bytes());  // number and size of this operation, for the watchdog
      run_operation(buffers.call(placement, /*iteration=*/0, rank_case.dtype, rank_case.redop, rank_case.root));
      if (fault_ && corrupt_result(*fault_, communicator_, rank_case, buffers.recv_data(placement)))
        has_changed_result_ = true;
      RankCheckResult check_result = checker.verify_result(rank_case, placement);
      if (neighbor_) {
        neighbor_->stop();
        neighbor_->verify(check_result);
      }
      world_.barrier();
      checker.verify_untouched(rank_case, placement, check_result);
      // With -H, a peer's next operation writes into this rank's buffers, so all ranks must first finish comparing.
      if (plan_.settings.rma_contexts > 0) world_.barrier();
      auto results = gather_values(world_, check_result);
      bool all_correct = true;
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        all_correct = all_correct && results[rank].wrong_elements == 0;
        reports[rank].check_result = std::move(results[rank]);
      }
      // As in nccl-tests, the first check that fails is the last one, and the row shows its result.
      if (iteration + 1 == plan_.settings.check_iterations) return;
      if (!broadcast_value(world_, all_correct)) return;
    }
  }

  /// Runs the operation to check. With -G it runs as a graph, as in the timed part.
  void run_operation(const CollectiveCall& call) {
    std::unique_ptr<OperationGraph> graph;  // must live until its operations have ended
    if (plan_.settings.graph_launches > 0) {
      communicator_.begin_capture();
      collective().run(communicator_, call);
      graph = communicator_.end_capture();
      graph->issue();
    } else {
      collective().run(communicator_, call);
    }
    communicator_.synchronize();
  }

  const RunPlan& plan_;
  Team& world_;
  Communicator& communicator_;
  Neighbor* neighbor_;
  Reporter* reporter_;  // only rank 0 uses it; may be null on other ranks
  std::map<int, std::vector<int>> groups_;  // ranks of the job by color of their group
  std::map<int, std::vector<RankInfo>> ranks_by_group_;  // by color; on ranks other than 0, empty
  const std::optional<Fault> fault_;
  bool has_changed_result_ = false;  // by the fault
  std::unique_ptr<Collective> delayed_collective_;
  int ranks_of_largest_group_ = 0;
  std::optional<std::pair<Dtype, Redop>> filled_for_;  // type and operator of the data in the buffers
  std::uint64_t last_seed_ = 0;                        // of the data of checks, the same on all ranks
};

/// Measures the program of the plan. Rank 0 reports one row for each cycle.
void replay_program(const RunPlan& plan, Backend& backend, Team& world, Communicator& communicator,
                    const std::vector<RankInfo>& ranks, Reporter* reporter) {
  const auto fault = fault_of(plan, world);
  bool has_changed_result = false;  // by the fault
  ReplayHooks hooks;
  hooks.replace_step = [&](const Collective& step) {
    const bool is_delayed = fault && fault->kind == Fault::Kind::delay;
    return is_delayed ? make_delayed_collective(step, fault->delay_us) : nullptr;
  };
  hooks.change_result = [&](Communicator& checked, const RankCase& rank_case, std::byte* recv) {
    if (fault && corrupt_result(*fault, checked, rank_case, recv)) has_changed_result = true;
  };
  hooks.report = [&](int cycle, StopReason stopped_by, std::vector<RankReport> reports) {
    const CaseLabel label{plan.sweep.configurations.front(), plan.sweep.sizes_bytes.front(), /*group=*/0, cycle, ranks};
    const std::map<Placement, PlacementReport> placements{{Placement::out_of_place, {std::move(reports), stopped_by}}};
    reporter->report_rows({make_row(plan, label, placements, step_exactness(*plan.replay))});
  };
  run_replay(*plan.replay, plan.settings, backend, world, communicator, hooks);
  if (fault && plan.settings.check_iterations > 0) require_effect(*fault, has_changed_result);
}

/// Measures the life of communicators. Rank 0 reports the rows of each case.
void measure_comm_ops(const RunPlan& plan, Backend& backend, Team& world, const std::vector<RankInfo>& ranks,
                      Reporter* reporter) {
  const auto fault = fault_of(plan, world);
  bool has_changed_result = false;  // by the fault
  CommOpsHooks hooks;
  hooks.before_call = [&] {
    if (fault && fault->kind == Fault::Kind::delay) delay_call(*fault);
  };
  hooks.change_result = [&](std::span<std::int32_t> result) {
    const bool is_flip = fault && fault->kind == Fault::Kind::flip;
    if (is_flip && flip_bit(*fault, result)) has_changed_result = true;
  };
  hooks.report = [&](const CommOpsCase& comm_case, const std::vector<std::vector<CallTimes>>& calls) {
    reporter->report_rows(make_call_rows(comm_case, calls, backend, ranks));
  };
  run_comm_ops(*plan.comm_ops, plan.settings, backend, world, hooks);
  if (fault && plan.settings.check_iterations > 0) require_effect(*fault, has_changed_result);
}

/// Location of this rank for the requests of `busbw find`.
RankLocation describe_location(const Backend& backend, int local_rank) {
  // In a pod, the host name is that of the pod. Users need the name of the node, for example to cordon it.
  const std::string node = nonempty_variable(process_environment, "BUSBW_NODENAME").value_or(host_name());
  return {node, host_identity(), backend.network_port(local_rank), backend.device(local_rank).name};
}

/// Connections of this rank to others. run_rank owns them, so that they outlive an exception in join_and_run: the
/// failure must be reported before they are destroyed.
struct GroupMembership {
  std::unique_ptr<Team> group;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Neighbor> neighbor;
};

/// Connects the rank and runs the operation that the plan describes: calls of communicators, rounds of flows, a replay
/// program or a sweep. `report_exception`, for catch blocks, reports the current exception to the job and returns the
/// message of the job's failure.
void join_and_run(const RunPlan& plan, Backend& backend, Job& job, Team& world, Reporter* reporter,
                  GroupMembership& membership, const std::function<std::string()>& report_exception) {
  world.enter(Phase::rendezvous);
  world.barrier();

  world.enter(Phase::initialisation);
  if (plan.comm_ops) {  // no communicator exists before those of comm_ops, so their creation includes all costs
    const auto ranks = gather_values(world, describe_rank(plan, backend, std::nullopt, world.rank()));
    if (world.rank() == 0) reporter->begin(ranks, backend.facts());
    world.barrier();
    return measure_comm_ops(plan, backend, world, ranks, reporter);
  }
  const int process = world.rank() / plan.ranks_per_process();
  const int color = plan.split.color(process);
  // A run of flows has no groups. Its `connect` only prepares the communicator, without other ranks. serve_flows
  // connects the ranks later, and leaves out those that are lost before.
  if (!plan.flow_service) membership.group = world.split(color);
  membership.communicator = backend.connect(world, membership.group ? *membership.group : world);
  Communicator& communicator = *membership.communicator;
  communicator.enter(Phase::initialisation);
  if (plan.neighbor)
    membership.neighbor = std::make_unique<Neighbor>(*plan.neighbor, backend, world, color, communicator,
                                                     plan.neighbor_offset(), report_exception);
  require_capabilities(plan, backend, communicator);
  const auto ranks = gather_values(world, describe_rank(plan, backend, communicator.clock_state(), world.rank()));
  if (world.rank() == 0) reporter->begin(ranks, backend.facts());
  // After this barrier, the outputs have begun, so they can report a rank that fails in a case.
  world.barrier();
  if (plan.flow_service)
    return serve_flows(job, world, communicator, *plan.flow_service, plan.max_bytes,
                       describe_location(backend, world.rank() - plan.first_rank), report_exception);
  if (plan.replay)
    replay_program(plan, backend, world, communicator, ranks, reporter);
  else
    RankRun(plan, world, communicator, membership.neighbor.get(), reporter, ranks).run_sweep();
  if (plan.settings.report_memory) {
    auto memory = gather_values(world, communicator.memory().value_or(MemoryUse{}));
    if (world.rank() == 0) reporter->set_memory(std::move(memory));
  }
}

}  // namespace

void run_rank(const RunPlan& plan, Backend& backend, Job& job, int rank, Reporter* reporter) {
  const auto world = job.team(rank);
  std::unique_ptr<Team> faulty_world;
  GroupMembership membership;
  try {
    if (const auto fault = fault_of(plan, *world)) faulty_world = make_faulty_team(*world, *fault);
    const auto report_exception = [&] {
      report_failure(job, rank);
      return job.failure()->message;
    };
    join_and_run(plan, backend, job, faulty_world ? *faulty_world : *world, reporter, membership, report_exception);
  } catch (...) {
    report_failure(job, rank);
    throw;
  }
}

}  // namespace busbw
