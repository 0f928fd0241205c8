#pragma once
// A team that communicates through a rendezvous store.
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// Callbacks and counters of the member that uses the team.
struct MemberCallbacks {
  std::function<bool()> aborted;
  /// The rank entered a phase, or made a step within its phase if empty.
  std::function<void(std::optional<Phase>)> on_step;
  IssuedOperations& issued;
};

/// Gathers in rounds of at most kRoundBytes over all members. This bounds the memory in the store and in each member.
class StoreTeam final : public Team {
 public:
  static constexpr std::size_t kRoundBytes = std::size_t{32} << 20;

  /// `members`: ranks of the members in the job; `own_index`: this member's index; `name`: for keys and messages.
  /// The store must outlive the team and all teams split from it.
  StoreTeam(Store& store, MemberCallbacks callbacks, std::vector<int> members, int own_index, std::string name);

  int rank() const override { return own_index_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void barrier() override;
  std::vector<Bytes> gather(std::span<const std::byte> own_bytes) override;
  Bytes broadcast(std::span<const std::byte> from_first) override;
  std::unique_ptr<Team> split(int color) override;
  bool aborted() const override { return callbacks_.aborted(); }
  void enter(Phase phase) override { callbacks_.on_step(phase); }
  IssuedOperations& issued() override { return callbacks_.issued; }

 private:
  std::string next_key(const char* operation);

  Store& store_;
  MemberCallbacks callbacks_;
  std::vector<int> members_;
  int own_index_;
  std::string name_;
  std::uint64_t calls_ = 0;  // equal in all members; part of the keys
};

}  // namespace busbw
