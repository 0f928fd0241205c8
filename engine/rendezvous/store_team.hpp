#pragma once
// A team that communicates through a rendezvous store. LaunchedJob makes one for all processes and one for all ranks.
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Functions and counters of the member that uses the team.
struct MemberCallbacks {
  /// Returns true if the job is aborted.
  std::function<bool()> aborted;
  /// Called for each step of the member: with the phase in `enter`, with nothing in other calls.
  std::function<void(std::optional<Phase>)> on_step;
  IssuedOperations& issued;
};

/// Gathers in rounds, to bound the memory of the store. In a round, each member sends a part of its message. Up to 8192
/// members send at most kRoundBytes together.
class StoreTeam final : public Team {
 public:
  static constexpr std::size_t kRoundBytes = std::size_t{32} << 20;

  /// `members`: number of each member in the job (of ranks or processes); `own_index`: this member's index in that
  /// list; `name`: name of the team in keys and error messages. The store must outlive the team and all teams split
  /// from it.
  StoreTeam(Store& store, MemberCallbacks callbacks, std::vector<int> members, int own_index, std::string name);

  int rank() const override { return own_index_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void barrier() override;
  std::vector<Bytes> gather(std::span<const std::byte> own_bytes) override;
  Bytes broadcast(std::span<const std::byte> own_bytes) override;
  std::unique_ptr<Team> split(int color) override;
  bool aborted() const override { return callbacks_.aborted(); }
  void enter(Phase phase) override { callbacks_.on_step(phase); }
  IssuedOperations& issued() override { return callbacks_.issued; }

 private:
  /// Returns a key that no earlier call of this team has used.
  std::string next_key(const char* operation);

  Store& store_;
  MemberCallbacks callbacks_;
  std::vector<int> members_;
  int own_index_;
  std::string name_;
  std::uint64_t calls_ = 0;  // number of calls, equal in all members
};

}  // namespace busbw
