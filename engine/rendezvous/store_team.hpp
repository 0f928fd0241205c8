#pragma once
// A team that communicates through a rendezvous store. LaunchedJob makes one for all processes and one for all ranks.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/team/team.hpp"

namespace busbw {

/// State of one rank of this process, on its own cache line because the rank's thread writes it constantly.
struct alignas(64) LocalRank {
  int index = 0;  // among the ranks of this process
  std::atomic<Phase> phase{Phase::rendezvous};
  std::atomic<std::uint64_t> steps{0};
  IssuedOperations issued;
};

/// Gathers in rounds, to bound the memory of the store. In a round, each member sends a part of its message. All parts
/// of a round have at most kRoundBytes together, or 4 KiB each if the team has more than 8192 members.
class StoreTeam final : public Team {
 public:
  static constexpr std::size_t kRoundBytes = std::size_t{32} << 20;

  /// `members`: rank of each member in the job; if the members are processes, the first rank of each. `own_index`: this
  /// member's index in that list. `name`: name of the team in keys and error messages. Each call counts a step in
  /// `state`. `store` and `state` must outlive the team and all teams split from this team.
  StoreTeam(TcpStore& store, LocalRank& state, std::vector<int> members, int own_index, std::string name);

  int rank() const override { return own_index_; }
  int size() const override { return static_cast<int>(members_.size()); }
  void barrier() override;
  std::vector<Bytes> gather(std::span<const std::byte> own_bytes) override;
  Bytes broadcast(std::span<const std::byte> own_bytes) override;
  std::unique_ptr<Team> split(int color) override;
  bool aborted() const override { return store_.aborted(); }
  void enter(Phase phase) override;
  IssuedOperations& issued() override { return state_.issued; }

 private:
  /// Throws JobAborted after an abort.
  void count_step();
  /// Returns a key that no earlier call of this team has used.
  std::string next_key(const char* operation);
  /// Sends this member's message in the gather with `key`. For all members except the first.
  void send_in_parts(const std::string& key, std::span<const std::byte> message);
  /// Returns the messages of all members in the gather with `key`. For the first member.
  std::vector<Bytes> collect_messages(const std::string& key, std::span<const std::byte> own_message);

  TcpStore& store_;
  LocalRank& state_;
  std::vector<int> members_;
  int own_index_;
  std::string name_;
  std::uint64_t calls_ = 0;  // number of calls, equal in all members
};

}  // namespace busbw
