// Barriers and messages between the members of a team, over the rendezvous store. A long message is sent in parts.
#include "rendezvous/store_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbw {
namespace {

constexpr std::size_t kHeaderBytes = 64;  // room for the sizes that precede a part in its value
constexpr std::size_t kMinPartBytes = 4096;
constexpr std::size_t kMaxPartBytes = StoreState::kMaxValueBytes - kHeaderBytes;

/// Returns the maximum size of the part that each member sends in a round of gather.
std::size_t gather_part_bytes(std::size_t members) {
  return std::clamp(StoreTeam::kRoundBytes / members, kMinPartBytes, kMaxPartBytes);
}

/// Key with which member 0 starts the round of a gather that sends the parts from byte `offset` on.
std::string round_key(const std::string& gather_key, std::size_t offset) {
  return fmt::format("{} go on to byte {}", gather_key, offset);
}

/// Key of the part that begins at byte `offset` of a member's message. `rank`: rank of the member in the job.
std::string part_key(const std::string& gather_key, int rank, std::size_t offset) {
  return fmt::format("{} from rank {} byte {}", gather_key, rank, offset);
}

}  // namespace

StoreTeam::StoreTeam(TcpStore& store, LocalRank& state, std::vector<int> members, int own_index, std::string name)
    : store_(store), state_(state), members_(std::move(members)), own_index_(own_index), name_(std::move(name)) {}

std::string StoreTeam::next_key(const char* operation) {
  return fmt::format("{} {} of {}", operation, ++calls_, name_);
}

void StoreTeam::count_step() {
  state_.steps.fetch_add(1, std::memory_order_relaxed);
  if (aborted()) throw JobAborted();
}

void StoreTeam::enter(Phase phase) {
  if (state_.phase.exchange(phase, std::memory_order_relaxed) != phase) store_.report_phase(state_.index, phase);
  count_step();
}

void StoreTeam::barrier() {
  count_step();
  store_.barrier(next_key("barrier"), own_index_, size());
}

// The first part of each member starts with the size of the whole message. Member 0 collects all parts of a round, and
// then sets the key of the next round. The members with more data wait for this key.
std::vector<Bytes> StoreTeam::gather(std::span<const std::byte> own_bytes) {
  count_step();
  const std::string key = next_key("gather");
  if (own_index_ == 0) return collect_messages(key, own_bytes);
  send_in_parts(key, own_bytes);
  return {};
}

void StoreTeam::send_in_parts(const std::string& key, std::span<const std::byte> message) {
  const int own_rank = members_[static_cast<std::size_t>(own_index_)];
  const std::size_t part_bytes = gather_part_bytes(members_.size());
  std::size_t offset = 0;
  do {  // once also for an empty message
    if (offset > 0) store_.get(round_key(key, offset));
    MessageWriter header;
    if (offset == 0) header.add(message.size());
    Bytes bytes = header.bytes();
    const auto part = message.subspan(offset, std::min(part_bytes, message.size() - offset));
    bytes.insert(bytes.end(), part.begin(), part.end());
    store_.set(part_key(key, own_rank, offset), bytes, /*reads=*/1);
    offset += part_bytes;
  } while (offset < message.size());
}

std::vector<Bytes> StoreTeam::collect_messages(const std::string& key, std::span<const std::byte> own_message) {
  const std::size_t part_bytes = gather_part_bytes(members_.size());
  std::vector<Bytes> messages(members_.size());
  messages[0].assign(own_message.begin(), own_message.end());
  std::vector<std::size_t> sizes(members_.size());  // of the whole messages, known from their first parts
  std::vector<std::size_t> pending;                 // members with an incomplete message
  for (std::size_t member = 1; member < members_.size(); ++member) pending.push_back(member);
  for (std::size_t offset = 0; !pending.empty(); offset += part_bytes) {
    if (offset > 0) store_.set(round_key(key, offset), {}, static_cast<int>(pending.size()));
    std::vector<std::string> keys;
    std::vector<int> setters;
    for (const std::size_t member : pending) {
      keys.push_back(part_key(key, members_[member], offset));
      setters.push_back(members_[member]);
    }
    const std::vector<Bytes> round_parts = store_.get_all(keys, setters);
    for (std::size_t i = 0; i < round_parts.size(); ++i) {
      const std::size_t member = pending[i];
      std::span<const std::byte> bytes = round_parts[i];
      if (bytes.empty()) {  // the member is lost
        messages[member].clear();
        sizes[member] = 0;
        continue;
      }
      if (offset == 0) {
        sizes[member] = MessageReader(bytes).take<std::size_t>();
        bytes = bytes.subspan(sizeof(std::size_t));
      }
      messages[member].insert(messages[member].end(), bytes.begin(), bytes.end());
    }
    std::erase_if(pending, [&](std::size_t member) { return messages[member].size() >= sizes[member]; });
  }
  return messages;
}

Bytes StoreTeam::broadcast(std::span<const std::byte> own_bytes) {
  count_step();
  const std::string key = next_key("broadcast");
  const auto broadcast_part_key = [&](std::size_t offset) { return fmt::format("{} byte {}", key, offset); };
  if (own_index_ == 0) {
    Bytes message(own_bytes.begin(), own_bytes.end());
    if (size() == 1) return message;
    std::size_t offset = 0;
    do {  // once also for an empty message
      const auto part = own_bytes.subspan(offset, std::min(kMaxPartBytes, own_bytes.size() - offset));
      store_.set(broadcast_part_key(offset), MessageWriter().add(own_bytes.size()).add(part).bytes(), size() - 1);
      offset += kMaxPartBytes;
    } while (offset < own_bytes.size());
    return message;
  }
  Bytes received;
  std::size_t total_bytes = 0;
  do {
    const Bytes message = store_.get(broadcast_part_key(received.size()));
    MessageReader reader(message);
    total_bytes = reader.take<std::size_t>();
    const Bytes part = reader.take_bytes();
    received.insert(received.end(), part.begin(), part.end());
  } while (received.size() < total_bytes);
  return received;
}

std::unique_ptr<Team> StoreTeam::split(int color) {
  const std::vector<int> colors = all_gather_values(*this, color);
  std::vector<int> group_members;
  int index_in_group = 0;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (colors[member] != color) continue;
    if (static_cast<int>(member) == own_index_) index_in_group = static_cast<int>(group_members.size());
    group_members.push_back(members_[member]);
  }
  return std::make_unique<StoreTeam>(store_, state_, std::move(group_members), index_in_group,
                                     fmt::format("group {} of split {} of {}", color, calls_, name_));
}

}  // namespace busbw
