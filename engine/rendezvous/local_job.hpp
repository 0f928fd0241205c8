#pragma once
// A job on one machine: what its ranks, threads and processes alike, share to find, wait for and stop each other. It
// lives in an anonymous shared mapping that is made before any process is forked.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team.hpp"
#include "support/error.hpp"
#include "support/phase.hpp"

namespace busbw {

/// Why a job was aborted: the first reason given stands.
struct Failure {
  Exit exit = Exit::good;
  std::string message;
};

/// How far a rank has got; steps are comparable between ranks, since all take the same.
struct RankProgress {
  Phase phase = Phase::rendezvous;
  std::uint64_t steps = 0;
};

class LocalJob {
 public:
  /// Maps the shared state for `ranks` ranks.
  explicit LocalJob(int ranks);
  ~LocalJob();
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  int ranks() const { return ranks_; }
  /// The team of all ranks, as `rank` sees it.
  std::unique_ptr<Team> team(int rank);
  /// Makes every wait in the job end with Aborted. Safe from any thread or process; the first call's reason is kept.
  void abort(Exit exit, const std::string& message) noexcept;
  bool aborted() const noexcept;
  /// Missing while the job is not aborted.
  std::optional<Failure> failure() const;
  RankProgress progress(int rank) const;

 private:
  struct Shared;
  struct RankBlock;
  class MemberTeam;

  RankBlock& block(int world_rank) const;

  int ranks_;
  std::size_t mapped_bytes_;
  Shared* shared_;
};

}  // namespace busbw
