#include "measure/runner.hpp"

#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "measure/checker.hpp"
#include "measure/clock.hpp"
#include "measure/memory_report.hpp"
#include "measure/reduce_ranks.hpp"
#include "measure/rows.hpp"
#include "measure/stopping.hpp"
#include "support/message.hpp"
#include "support/provenance.hpp"

namespace busbw {
namespace {

Bytes rank_info_message(const RunPlan& plan, const Backend& backend, int rank) {
  const int process = rank / plan.ranks_per_process();
  const Device device = backend.device(rank - plan.first_rank);
  const std::optional<LibraryInfo> library = backend.library();
  MessageWriter writer;
  writer.add(plan.split.colour(process))
      .add(process)
      .add(static_cast<long>(getpid()))
      .add(host_name())
      .add(device.index)
      .add(device.bus_id)
      .add(device.name)
      .add(library.has_value());
  if (library)
    writer.add(library->version).add(library->path).add(library->sha256.has_value()).add(library->sha256.value_or(""));
  return writer.bytes();
}

RankInfo read_rank_info(const Bytes& bytes, int rank) {
  MessageReader reader(bytes);
  RankInfo info;
  info.rank = rank;
  info.group = reader.take<int>();
  info.process = reader.take<int>();
  info.pid = reader.take<long>();
  info.host = reader.take_text();
  info.device = reader.take<int>();
  info.bus_id = reader.take_text();
  info.device_name = reader.take_text();
  if (reader.take<bool>()) {
    LibraryInfo library{reader.take_text(), reader.take_text(), {}};
    const bool has_hash = reader.take<bool>();
    std::string hash = reader.take_text();
    if (has_hash) library.sha256 = std::move(hash);
    info.library = std::move(library);
  }
  return info;
}

Bytes samples_message(const Samples& samples) {
  return MessageWriter().add(samples.total_s).add(samples.issue_s).add(samples.iteration_s).bytes();
}

Samples read_samples(const Bytes& bytes) {
  MessageReader reader(bytes);
  Samples samples;
  samples.total_s = reader.take<double>();
  samples.issue_s = reader.take<double>();
  samples.iteration_s = reader.take_doubles();
  return samples;
}

Bytes findings_message(const RankFindings& findings) {
  MessageWriter writer;
  writer.add(findings.wrong_elements).add(findings.first.size());
  for (const WrongElement& wrong : findings.first)
    writer.add(wrong.rank).add(wrong.place).add(wrong.index).add(wrong.expected).add(wrong.got);
  return writer.bytes();
}

RankFindings read_findings(const Bytes& bytes) {
  MessageReader reader(bytes);
  RankFindings findings;
  findings.wrong_elements = reader.take<std::uint64_t>();
  const auto kept = reader.take<std::size_t>();
  for (std::size_t i = 0; i < kept; ++i) {
    WrongElement wrong;
    wrong.rank = reader.take<int>();
    wrong.place = reader.take_text();
    wrong.index = reader.take<std::int64_t>();
    wrong.expected = reader.take_text();
    wrong.got = reader.take_text();
    findings.first.push_back(std::move(wrong));
  }
  return findings;
}

/// One rank during the sweep.
class RankRun {
 public:
  RankRun(const RunPlan& plan, Team& world, Communicator& communicator, const RunCallbacks& callbacks)
      : plan_(plan),
        world_(world),
        communicator_(communicator),
        callbacks_(callbacks),
        groups_(plan.split.groups(plan.settings.processes, plan.ranks_per_process())) {}

  void sweep() {
    for (const Configuration& configuration : plan_.sweep.configurations) {
      ReductionValues values(configuration.dtype, configuration.redop, communicator_.size());
      fill_buffers(configuration, values);
      for (int cycle = 0; plan_.sweep.cycles == 0 || cycle < plan_.sweep.cycles; ++cycle)
        for (const std::uint64_t size : plan_.sweep.sizes_bytes) run_case(configuration, values, size, cycle);
    }
    enter(Phase::report);
    world_.barrier();
  }

 private:
  bool reports() const { return world_.rank() == 0; }

  void enter(Phase phase) {
    world_.enter(phase);
    communicator_.enter(phase);
  }

  /// Every byte is written before it is timed: no first touch, and ordinary numbers everywhere.
  void fill_buffers(const Configuration& configuration, ReductionValues& values) {
    const std::pair wanted{configuration.dtype, configuration.redop};
    if (filled_for_ == wanted) return;
    filled_for_ = wanted;
    enter(Phase::warmup);
    for (const auto buffer : {communicator_.send_buffer(), communicator_.recv_buffer()})
      fill_numbers(buffer, configuration.dtype, values);
    communicator_.synchronize();
  }

  void fill_numbers(std::span<std::byte> memory, Dtype dtype, ReductionValues& values) {
    communicator_.fill(memory.data(), values.contribution(communicator_.rank(), 0), 0,
                       memory.size() / size_bytes(dtype));
  }

  void run_case(const Configuration& configuration, ReductionValues& values, std::uint64_t requested_bytes, int cycle) {
    const std::size_t element_bytes = size_bytes(configuration.dtype);
    const Shape shape = plan_.collective.shape(requested_bytes / element_bytes, element_bytes, communicator_.size());
    const CaseBuffers buffers(communicator_, shape, configuration.dtype, plan_.max_bytes,
                              plan_.settings.unalign_elements);
    std::map<Placement, std::vector<RankReport>> world_reports;
    std::map<Placement, StoppedBy> stopped_by;
    for (const Placement placement : plan_.placements) {
      world_reports[placement].resize(reports() ? world_.size() : 0);
      stopped_by[placement] = sample(configuration, buffers, placement, world_reports[placement]);
      check({plan_.collective, shape, configuration.dtype, configuration.redop, configuration.root, 0}, buffers, values,
            placement, world_reports[placement]);
      // The check left patterns behind that are no data to time.
      fill_numbers(buffers.send_region(), configuration.dtype, values);
      fill_numbers(buffers.recv_region(placement), configuration.dtype, values);
    }
    if (!reports()) return;
    CaseRows rows;
    for (const auto& [colour, members] : groups_) {
      std::map<Placement, PlacementReport> placements;
      for (auto& [placement, ranks] : world_reports) {
        placements[placement].stopped_by = stopped_by[placement];
        for (const int member : members) placements[placement].ranks.push_back(std::move(ranks[member]));
      }
      rows.push_back(make_row(plan_, {configuration, requested_bytes, colour, cycle}, placements,
                              policy_for(configuration, values, members.size())));
    }
    callbacks_.rows(rows);
  }

  /// The policy depends on the number of ranks, and groups may differ in theirs.
  std::string policy_for(const Configuration& configuration, const ReductionValues& values, std::size_t ranks) const {
    if (static_cast<int>(ranks) == communicator_.size()) return values.policy();
    return ReductionValues(configuration.dtype, configuration.redop, static_cast<int>(ranks)).policy();
  }

  StoppedBy sample(const Configuration& configuration, const CaseBuffers& buffers, Placement placement,
                   std::vector<RankReport>& reports_of_all) {
    Sampler sampler(world_, communicator_, plan_.collective, buffers, plan_.settings, configuration.dtype,
                    configuration.redop, configuration.root);
    enter(Phase::warmup);
    sampler.warm_up(placement);
    enter(Phase::timing);
    const StoppedBy why = take_samples(sampler, placement, reports_of_all);
    time_short_operations(sampler, placement, reports_of_all);
    return why;
  }

  StoppedBy take_samples(Sampler& sampler, Placement placement, std::vector<RankReport>& reports_of_all) {
    const StoppingRule rule{plan_.settings.target_ci, plan_.settings.max_time_s};
    const double began_s = monotonic_s();
    std::size_t next_look = 0;
    for (;;) {
      Samples batch;
      sampler.run_batch(placement, batch);
      const auto all = world_.gather(samples_message(batch));
      for (std::size_t rank = 0; rank < all.size(); ++rank)
        append(read_samples(all[rank]), reports_of_all[rank].samples);
      if (!rule.target_ci && !rule.max_time_s) return StoppedBy::iterations;
      std::optional<StoppedBy> decision;
      if (reports()) {
        // Looking costs a sort of all samples: only when there are noticeably more.
        const std::size_t count = reports_of_all.front().samples.iteration_s.size();
        const double elapsed_s = monotonic_s() - began_s;
        if (count >= next_look || elapsed_s >= rule.max_time_s.value_or(elapsed_s + 1)) {
          decision = rule.decide(last_rank_s(reports_of_all), elapsed_s);
          next_look = count + count / 8;
        }
      }
      decision = tell_all(decision);
      if (decision) return *decision;
    }
  }

  /// The total of operations that are short beside a reading of the clock, measured anew without one at each of them.
  void time_short_operations(Sampler& sampler, Placement placement, std::vector<RankReport>& reports_of_all) {
    std::size_t iterations = 0;
    if (reports()) {
      const Samples& own = reports_of_all.front().samples;
      if (sampler.clock_matters(own)) iterations = own.iteration_s.size();
    }
    iterations = tell_all(iterations);
    if (iterations == 0) return;
    const auto all = world_.gather(MessageWriter().add(sampler.time_batch(placement, iterations)).bytes());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto time = MessageReader(all[rank]).take<BatchTime>();
      reports_of_all[rank].samples.total_s = time.total_s;
      reports_of_all[rank].samples.issue_s = time.issue_s;
    }
  }

  /// What rank 0 decided, on every rank.
  template <class Value>
  Value tell_all(const Value& decided) {
    return MessageReader(world_.broadcast(MessageWriter().add(decided).bytes())).template take<Value>();
  }

  static void append(const Samples& batch, Samples& all) {
    all.total_s += batch.total_s;
    all.issue_s += batch.issue_s;
    all.iteration_s.insert(all.iteration_s.end(), batch.iteration_s.begin(), batch.iteration_s.end());
  }

  void check(RankCase rank_case, const CaseBuffers& buffers, ReductionValues& values, Placement placement,
             std::vector<RankReport>& reports_of_all) {
    const bool defined = placement == Placement::out_of_place || plan_.collective.in_place_defined();
    if (!defined) return;
    Checker checker(communicator_, buffers, values, world_.rank());
    for (int iteration = 0; iteration < plan_.settings.check_iterations; ++iteration) {
      enter(Phase::check);
      rank_case.seed = ++checks_;
      checker.prepare(rank_case, placement);
      world_.barrier();
      world_.issues(buffers.region_bytes());
      plan_.collective.run(communicator_, buffers.call(placement, 0, rank_case.dtype, rank_case.redop, rank_case.root));
      communicator_.synchronize();
      world_.barrier();
      const RankFindings findings = checker.verify(rank_case, placement);
      const auto all = world_.gather(findings_message(findings));
      bool right = true;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        reports_of_all[rank].findings = read_findings(all[rank]);
        right = right && reports_of_all[rank].findings.wrong_elements == 0;
      }
      // As in nccl-tests the first check that fails is the last, and the row shows what it found.
      if (iteration + 1 == plan_.settings.check_iterations) return;
      if (!tell_all(right)) return;
    }
  }

  const RunPlan& plan_;
  Team& world_;
  Communicator& communicator_;
  const RunCallbacks& callbacks_;
  std::map<int, std::vector<int>> groups_;  // world ranks by colour
  std::optional<std::pair<Dtype, Redop>> filled_for_;
  std::uint64_t checks_ = 0;
};

/// What a rank has together with others, from the time it has it.
struct Joined {
  std::unique_ptr<Team> group;
  std::unique_ptr<Communicator> communicator;
};

void run_member(const RunPlan& plan, Backend& backend, Team& world, const RunCallbacks& callbacks, Joined& joined) {
  world.enter(Phase::rendezvous);
  backend.enter(Phase::rendezvous, world.rank());
  world.barrier();

  world.enter(Phase::initialisation);
  const int process = world.rank() / plan.ranks_per_process();
  joined.group = world.split(plan.split.colour(process));
  joined.communicator = backend.connect(world, *joined.group);
  Communicator& communicator = *joined.communicator;
  communicator.enter(Phase::initialisation);
  const auto infos = world.gather(rank_info_message(plan, backend, world.rank()));
  if (world.rank() == 0) {
    std::vector<RankInfo> ranks;
    for (std::size_t rank = 0; rank < infos.size(); ++rank)
      ranks.push_back(read_rank_info(infos[rank], static_cast<int>(rank)));
    callbacks.begin(ranks);
  }
  // From here on a rank may be lost, and then the outputs that tell of it have begun.
  world.barrier();
  RankRun(plan, world, communicator, callbacks).sweep();
  if (plan.settings.report_memory) {
    auto memory = gather_memory(world, communicator);
    if (world.rank() == 0 && callbacks.memory) callbacks.memory(std::move(memory));
  }
}

}  // namespace

void run_rank(const RunPlan& plan, Backend& backend, Team& world, const RunCallbacks& callbacks) {
  Joined joined;
  try {
    run_member(plan, backend, world, callbacks, joined);
  } catch (...) {
    if (callbacks.failed) callbacks.failed(world.rank());
    throw;
  }
}

}  // namespace busbw
