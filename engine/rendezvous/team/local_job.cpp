// Memory layout of a job on one host, and its teams. Ranks are threads or forked processes. They exchange messages in
// parts through mailboxes in the shared memory, with a barrier after each write and after each read.
#include "rendezvous/team/local_job.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "common/os/process_status.hpp"
#include "rendezvous/team/barrier.hpp"

namespace busbw {
namespace {

constexpr std::size_t kMailboxBytes = 16384;
constexpr std::size_t kFailureMessageBytes = 4096;
constexpr std::size_t kCacheLine = 64;

}  // namespace

/// Number of team levels. The team of all ranks has level 0, and each split adds one level. comm_ops needs three
/// splits.
constexpr std::size_t kTeamLevels = 4;

/// Shared state of one rank. A team uses a barrier in the block of its first member. Each level has a barrier of its
/// own, because a team and its split may have the same first member. The mailbox holds the part of a message that other
/// members read next.
struct LocalJob::RankBlock {
  alignas(kCacheLine) std::atomic<int> phase;
  std::atomic<std::uint64_t> steps;
  std::atomic<pid_t> pid;  // of the rank's process; 0 before the rank has a team
  IssuedOperations issued;
  std::array<Barrier, kTeamLevels> barriers;  // by level
  int color;                                  // argument of `split`
  std::uint64_t message_bytes;                // size of the whole message
  std::array<std::byte, kMailboxBytes> mailbox;

  /// Puts the part of `message` from byte `offset` on into the mailbox. Does nothing after the end of the message.
  void write_part(std::span<const std::byte> message, std::size_t offset) {
    if (offset >= message.size()) return;
    std::ranges::copy(message.subspan(offset, std::min(kMailboxBytes, message.size() - offset)), mailbox.begin());
  }
  /// Appends the part of the message from byte `offset` on, which is in the mailbox. Does nothing after the end of the
  /// message.
  void append_part(std::size_t offset, Bytes& message) const {
    if (offset >= message_bytes) return;
    const std::size_t part_bytes = std::min<std::size_t>(kMailboxBytes, message_bytes - offset);
    message.insert(message.end(), mailbox.begin(), mailbox.begin() + part_bytes);
  }
};

/// State of the whole job. The thread that changes `running` to `aborting` writes the failure, then sets `aborted`.
struct LocalJob::SharedState {
  enum State : int { running, aborting, aborted };
  alignas(kCacheLine) std::atomic<int> state;
  int exit_code;
  std::array<char, kFailureMessageBytes> message;
};

/// One member's handle to a team of some or all ranks of the job.
class LocalJob::LocalTeam final : public Team {
 public:
  LocalTeam(LocalJob& job, std::vector<int> members, int own_index, std::size_t level)
      : job_(job), members_(std::move(members)), own_index_(own_index), level_(level) {}

  int rank() const override { return own_index_; }
  int size() const override { return static_cast<int>(members_.size()); }
  bool aborted() const override { return job_.aborted(); }

  void enter(Phase phase) override {
    own_block().phase.store(static_cast<int>(phase), std::memory_order_relaxed);
    own_block().steps.fetch_add(1, std::memory_order_relaxed);
    if (aborted()) throw JobAborted();
  }

  IssuedOperations& issued() override { return own_block().issued; }

  void barrier() override {
    own_block().steps.fetch_add(1, std::memory_order_relaxed);
    if (aborted()) throw JobAborted();
    // If all members have arrived, the barrier does not throw, even if the job is aborted meanwhile. So the last row is
    // kept if a rank is lost just after it.
    first_block().barriers.at(level_).arrive_and_wait(size(), *this);
  }

  std::vector<Bytes> gather(std::span<const std::byte> own_bytes) override {
    // The members exchange their messages in parts of kMailboxBytes, until the largest message is complete.
    std::vector<Bytes> messages(own_index_ == 0 ? members_.size() : 0);
    own_block().message_bytes = own_bytes.size();
    std::uint64_t max_bytes = 0;  // size of the largest message
    std::size_t offset = 0;
    do {
      own_block().write_part(own_bytes, offset);
      barrier();
      for (std::size_t member = 0; member < members_.size(); ++member) {
        const RankBlock& sender = job_.block(members_[member]);
        max_bytes = std::max(max_bytes, sender.message_bytes);
        if (own_index_ == 0) sender.append_part(offset, messages[member]);
      }
      barrier();
      offset += kMailboxBytes;
    } while (offset < max_bytes);
    return messages;
  }

  Bytes broadcast(std::span<const std::byte> own_bytes) override {
    RankBlock& first = first_block();
    if (own_index_ == 0) first.message_bytes = own_bytes.size();
    Bytes received;
    std::uint64_t total_bytes = 0;
    std::size_t offset = 0;
    do {
      if (own_index_ == 0) first.write_part(own_bytes, offset);
      barrier();
      total_bytes = first.message_bytes;
      first.append_part(offset, received);
      barrier();
      offset += kMailboxBytes;
    } while (offset < total_bytes);
    return received;
  }

  std::unique_ptr<Team> split(int color) override {
    own_block().color = color;
    barrier();
    std::vector<int> group_members;
    int index_in_group = 0;
    for (std::size_t member = 0; member < members_.size(); ++member) {
      if (job_.block(members_[member]).color != color) continue;
      if (static_cast<int>(member) == own_index_) index_in_group = static_cast<int>(group_members.size());
      group_members.push_back(members_[member]);
    }
    barrier();  // no member may write its next color before all members have read this one
    return std::make_unique<LocalTeam>(job_, std::move(group_members), index_in_group, level_ + 1);
  }

 private:
  RankBlock& own_block() const { return job_.block(members_[own_index_]); }
  RankBlock& first_block() const { return job_.block(members_.front()); }

  LocalJob& job_;
  std::vector<int> members_;  // ranks in the job
  int own_index_;             // index into members_
  std::size_t level_;         // number of splits from the team of all ranks
};

LocalJob::LocalJob(int ranks) : ranks_(ranks), mapped_bytes_(sizeof(SharedState) + ranks * sizeof(RankBlock)) {
  void* memory = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw EnvironmentError(fmt::format("no shared memory for {} ranks ({} bytes): {}; free memory or use fewer ranks",
                                       ranks, mapped_bytes_, std::strerror(errno)));
  // New anonymous memory is zero, which is the initial value of every member.
  shared_ = static_cast<SharedState*>(memory);
}

LocalJob::~LocalJob() { munmap(shared_, mapped_bytes_); }

LocalJob::RankBlock& LocalJob::block(int rank) const {
  return reinterpret_cast<RankBlock*>(reinterpret_cast<std::byte*>(shared_) + sizeof(SharedState))[rank];
}

std::unique_ptr<Team> LocalJob::team(int rank) {
  block(rank).pid.store(getpid(), std::memory_order_relaxed);
  std::vector<int> all_ranks(ranks_);
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  return std::make_unique<LocalTeam>(*this, std::move(all_ranks), rank, 0);
}

void LocalJob::abort(ExitCode exit, const std::string& message) noexcept {
  int expected = SharedState::running;
  if (!shared_->state.compare_exchange_strong(expected, SharedState::aborting)) return;
  shared_->exit_code = static_cast<int>(exit);
  message.copy(shared_->message.data(), kFailureMessageBytes - 1);
  shared_->state.store(SharedState::aborted, std::memory_order_release);
}

bool LocalJob::aborted() const noexcept {
  return shared_->state.load(std::memory_order_acquire) == SharedState::aborted;
}

std::optional<Failure> LocalJob::failure() const {
  if (!aborted()) return std::nullopt;
  return Failure{static_cast<ExitCode>(shared_->exit_code), shared_->message.data()};
}

std::vector<int> LocalJob::stopped_ranks() const {
  std::vector<int> stopped;
  for (int rank = 0; rank < ranks_; ++rank) {
    const pid_t pid = block(rank).pid.load(std::memory_order_relaxed);
    if (pid == 0) continue;
    const auto status = read_process_status(pid);
    if (status && status->is_stopped()) stopped.push_back(rank);
  }
  return stopped;
}

RankProgress LocalJob::progress(int rank) const {
  const RankBlock& rank_block = block(rank);
  return {static_cast<Phase>(rank_block.phase.load(std::memory_order_relaxed)),
          rank_block.steps.load(std::memory_order_relaxed), rank_block.issued.operations(), rank_block.issued.bytes()};
}

}  // namespace busbw
