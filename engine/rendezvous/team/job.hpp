#pragma once
// A job as the one who runs its ranks sees it: its teams, how far its ranks are, and why it ends early.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/support/error.hpp"
#include "rendezvous/team/team.hpp"
#include "values/phase.hpp"

namespace busbw {

/// Why a job was aborted: the first reason given stands.
struct Failure {
  ExitCode exit = ExitCode::good;
  std::string message;
  std::vector<std::string> details = {};  // what is known of the ranks besides, in this process alone
  bool timed_out = false;                 // no rank got on for the time limit; known where that was noticed
};

/// How far a rank has got; steps are comparable between ranks, since all take the same.
struct RankProgress {
  Phase phase = Phase::rendezvous;
  std::uint64_t steps = 0;
  std::uint64_t operations = 0;       // that it has issued
  std::uint64_t operation_bytes = 0;  // of the last of them
};

class Job {
 public:
  virtual ~Job() = default;
  /// Of the whole job.
  virtual int ranks() const = 0;
  /// The team of all ranks, as `rank` sees it.
  virtual std::unique_ptr<Team> team(int rank) = 0;
  /// Makes every wait in the job end with Aborted. Safe from any thread; the first call's reason is kept.
  virtual void abort(ExitCode exit, const std::string& message) noexcept = 0;
  virtual bool aborted() const noexcept = 0;
  /// Missing while the job is not aborted.
  virtual std::optional<Failure> failure() const = 0;
  virtual RankProgress progress(int rank) const = 0;
  /// How a rank is named to a person: "rank 3", with its host where ranks are on several.
  virtual std::string rank_name(int rank) const { return "rank " + std::to_string(rank); }
  /// A sentence that a rank says of itself, with its name where it is not plain who says it.
  virtual std::string with_rank_name(int /*rank*/, const std::string& sentence) const { return sentence; }
  /// Whether this process sees how far every rank is, and so has to notice that the job does not get on.
  virtual bool watches_all_ranks() const { return true; }
};

}  // namespace busbw
