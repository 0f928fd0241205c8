#pragma once
// A job on one machine: what its ranks, threads and processes alike, share to find, wait for and stop each other. It
// lives in an anonymous shared mapping that is made before any process is forked.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team/job.hpp"

namespace busbw {

class LocalJob final : public Job {
 public:
  /// Maps the shared state for `ranks` ranks.
  explicit LocalJob(int ranks);
  ~LocalJob() override;
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  int ranks() const override { return ranks_; }
  std::unique_ptr<Team> team(int rank) override;
  /// From any process, too.
  void abort(ExitCode exit, const std::string& message) noexcept override;
  bool aborted() const noexcept override;
  std::optional<Failure> failure() const override;
  RankProgress progress(int rank) const override;

 private:
  struct SharedState;
  struct RankBlock;
  class LocalTeam;

  RankBlock& block(int world_rank) const;

  int ranks_;
  std::size_t mapped_bytes_;
  SharedState* shared_;
};

}  // namespace busbw
