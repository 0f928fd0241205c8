#pragma once
// A team whose members reach each other through a store.
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/store/store.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// What a member tells of itself as it goes.
struct MemberCallbacks {
  std::function<bool()> aborted;
  /// The rank has come to a phase; missing: it has made a step within one.
  std::function<void(std::optional<Phase>)> on_step;
  IssuedOperations& issued;
};

/// Data is gathered in rounds in which all members together send at most kRoundBytes, so that no store and no member
/// ever holds more of what is on its way.
class StoreTeam final : public Team {
 public:
  static constexpr std::size_t kRoundBytes = std::size_t{32} << 20;

  /// `members`: the job's ranks of the members; `mine`: this one's place among them; `name`: for keys and messages.
  /// The store must outlive the team and all that it splits into.
  StoreTeam(Store& store, MemberCallbacks state, std::vector<int> members, int mine, std::string name);

  int rank() const override { return mine_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void barrier() override;
  std::vector<Bytes> gather(std::span<const std::byte> mine) override;
  Bytes broadcast(std::span<const std::byte> from_first) override;
  std::unique_ptr<Team> split(int colour) override;
  bool aborted() const override { return state_.aborted(); }
  void enter(Phase phase) override { state_.on_step(phase); }
  IssuedOperations& issued() override { return state_.issued; }

 private:
  std::string next_key(const char* what);

  Store& store_;
  MemberCallbacks state_;
  std::vector<int> members_;
  int mine_;
  std::string name_;
  std::uint64_t calls_ = 0;  // the same at all members: part of the keys
};

}  // namespace busbw
