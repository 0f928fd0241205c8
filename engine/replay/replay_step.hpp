#pragma once
// One step of a replay program as a collective, which the timing loop runs like any other.
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "replay/matched_calls.hpp"
#include "replay/replay_communicators.hpp"

namespace busbw {

/// First argument of the engine that selects a replay: `busbw-engine replay FILE`. A replay is not in collectives.toml,
/// because it has no sweep.
inline constexpr std::string_view kReplayName = "replay";

/// Data for the row of a step: size and count, no bandwidth. ReplayStep adds the calls.
class ReplayDescription : public Collective {
 public:
  explicit ReplayDescription(const ReplayProgram& program);
  /// A rank may end its step before others start theirs.
  bool synchronizes_all_ranks() const override { return false; }
  /// `param_count` is the maximum number of operations of a rank.
  Shape shape(std::size_t count, std::size_t element_bytes, int ranks) const override;
  /// Every rank returns the maximum over the ranks, because all must agree on how many calls fit behind a gate (Gate).
  int weighted_calls_per_run(int ranks) const override;
  Segments expected_segments(const Shape&, const RankPosition&) const override { return {}; }
  void run(Communicator&, const CollectiveCall&) const override {}

 private:
  Shape shape_;
  int max_weighted_calls_ = 0;
};

/// The calls of one rank (ReplayCall). A call is one collective, or all transfers of one exchange. Each communicator of
/// the rank runs its calls in order. On a GPU, the communicators run at the same time, from the common start of the
/// step to its common end, because a replay program contains no other order between communicators. On the host, a call
/// returns when it is complete, so a rank runs one call at a time.
class ReplayStep final : public ReplayDescription {
 public:
  /// `max_bytes`: size of the rank's buffers without guards. All arguments must outlive this object.
  ReplayStep(const MatchedCalls& calls, const ReplayCommunicators& communicators, const Team& world,
             std::uint64_t max_bytes);
  ~ReplayStep() override;
  /// Fills the buffers with data of the operations' types, so that no operation meets NaN.
  void fill_buffers() const;
  void run(Communicator&, const CollectiveCall&) const override;

 private:
  struct PreparedCall;

  PreparedCall prepare_call(const ReplayProgram& program, const ReplayCall& call, std::size_t slice_offset) const;
  static void set_transfers(const std::vector<ReplayOperation>& operations, const ReplayCall& call, std::byte* send,
                            std::byte* recv, PreparedCall& prepared);
  /// Ends of the last operation and of the last gap of a communicator, by the host clock.
  struct Ends {
    double operation_end_s = 0;
    double gap_end_s = 0;
  };
  /// Delays a call by its gap, which is the computation before the call in the recorded job. `ends` is used only
  /// without a device clock.
  void wait_for_gap(const PreparedCall& call, std::map<const Communicator*, Ends>& ends) const;

  const ReplayCommunicators& communicators_;
  const Team& world_;
  bool has_device_clock_;
  std::vector<PreparedCall> calls_;
};

/// Collective of the engine with this function, or null for send and recv.
const Collective* find_collective(trace::Function function);

}  // namespace busbw
