#pragma once
// A job on one host: its ranks are threads of this process and of processes that it forks. They share the job's state
// in an anonymous shared mapping, which is created before the first fork.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/team/job.hpp"

namespace busbw {

/// Job of ranks on this host. Job documents the overridden functions.
class LocalJob final : public Job {
 public:
  /// Maps shared memory for `ranks` ranks. Throws EnvironmentError if that fails.
  explicit LocalJob(int ranks);
  ~LocalJob() override;
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  int ranks() const override { return ranks_; }
  std::unique_ptr<Team> team(int rank) override;
  /// Callable from any process of the job.
  void abort(ExitCode exit, const std::string& message) noexcept override;
  bool aborted() const noexcept override;
  std::optional<Failure> failure() const override;
  RankProgress progress(int rank) const override;
  std::vector<int> stopped_ranks() const override;

 private:
  struct SharedState;
  struct RankBlock;
  class LocalTeam;

  RankBlock& block(int rank) const;

  int ranks_;
  std::size_t mapped_bytes_;
  SharedState* shared_;
};

}  // namespace busbw
