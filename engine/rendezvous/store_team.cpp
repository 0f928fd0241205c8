#include "rendezvous/store_team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbw {
namespace {

constexpr std::size_t kMinPartBytes = 4096;
constexpr std::size_t kBroadcastPartBytes = Store::kMaxValueBytes - 64;

std::size_t part_bytes(std::size_t members) {
  return std::clamp(StoreTeam::kRoundBytes / members, kMinPartBytes, Store::kMaxValueBytes - 64);
}

}  // namespace

StoreTeam::StoreTeam(Store& store, MemberCallbacks callbacks, std::vector<int> members, int own_index, std::string name)
    : store_(store),
      callbacks_(std::move(callbacks)),
      members_(std::move(members)),
      own_index_(own_index),
      name_(std::move(name)) {}

std::string StoreTeam::next_key(const char* operation) {
  return fmt::format("{} {} of {}", operation, ++calls_, name_);
}

void StoreTeam::barrier() {
  callbacks_.on_step(std::nullopt);
  store_.barrier(next_key("barrier"), own_index_, size());
}

// The first part of each member starts with the total size. Member 0 collects all parts of a round before it requests
// the next one, and only members with more data take part in it.
std::vector<Bytes> StoreTeam::gather(std::span<const std::byte> own_bytes) {
  callbacks_.on_step(std::nullopt);
  const std::string key = next_key("gather");
  const std::size_t part = part_bytes(members_.size());
  if (own_index_ != 0) {
    for (std::size_t done = 0; done == 0 || done < own_bytes.size(); done += part) {
      if (done > 0) store_.get(fmt::format("{} go on to byte {}", key, done));
      MessageWriter message;
      if (done == 0) message.add(own_bytes.size());
      Bytes bytes = message.bytes();
      const auto rest = own_bytes.subspan(done, std::min(part, own_bytes.size() - done));
      bytes.insert(bytes.end(), rest.begin(), rest.end());
      store_.set(fmt::format("{} from rank {} byte {}", key, members_[static_cast<std::size_t>(own_index_)], done),
                 bytes, 1);
    }
    return {};
  }
  std::vector<Bytes> all(members_.size());
  all[0].assign(own_bytes.begin(), own_bytes.end());
  std::vector<std::size_t> sizes(members_.size());
  std::vector<std::size_t> pending;
  for (std::size_t member = 1; member < members_.size(); ++member) pending.push_back(member);
  for (std::size_t done = 0; !pending.empty(); done += part) {
    if (done > 0) store_.set(fmt::format("{} go on to byte {}", key, done), {}, static_cast<int>(pending.size()));
    std::vector<std::string> keys;
    for (const std::size_t member : pending)
      keys.push_back(fmt::format("{} from rank {} byte {}", key, members_[member], done));
    const std::vector<Bytes> parts = store_.get_all(keys);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t member = pending[i];
      std::span<const std::byte> bytes = parts[i];
      if (done == 0) {
        sizes[member] = MessageReader(bytes).take<std::size_t>();
        bytes = bytes.subspan(sizeof(std::size_t));
      }
      all[member].insert(all[member].end(), bytes.begin(), bytes.end());
    }
    std::erase_if(pending, [&](std::size_t member) { return all[member].size() >= sizes[member]; });
  }
  return all;
}

Bytes StoreTeam::broadcast(std::span<const std::byte> from_first) {
  callbacks_.on_step(std::nullopt);
  const std::string key = next_key("broadcast");
  const auto part_key = [&](std::size_t done) { return fmt::format("{} byte {}", key, done); };
  constexpr std::size_t part = kBroadcastPartBytes;
  if (own_index_ == 0) {
    for (std::size_t done = 0; size() > 1 && (done == 0 || done < from_first.size()); done += part) {
      MessageWriter message;
      message.add(from_first.size()).add(from_first.subspan(done, std::min(part, from_first.size() - done)));
      store_.set(part_key(done), message.bytes(), size() - 1);
    }
    return {from_first.begin(), from_first.end()};
  }
  Bytes received;
  for (std::size_t total = 1; received.size() < total;) {
    const Bytes message = store_.get(part_key(received.size()));
    MessageReader reader(message);
    total = reader.take<std::size_t>();
    const Bytes bytes = reader.take_bytes();
    received.insert(received.end(), bytes.begin(), bytes.end());
  }
  return received;
}

std::unique_ptr<Team> StoreTeam::split(int color) {
  const std::vector<Bytes> gathered = gather(MessageWriter().add(color).bytes());
  MessageWriter all;
  for (const Bytes& one : gathered) all.add(MessageReader(one).take<int>());
  const Bytes colors = broadcast(all.bytes());
  MessageReader reader(colors);
  std::vector<int> same;
  int position = 0;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (reader.take<int>() != color) continue;
    if (static_cast<int>(member) == own_index_) position = static_cast<int>(same.size());
    same.push_back(members_[member]);
  }
  return std::make_unique<StoreTeam>(store_, callbacks_, std::move(same), position,
                                     fmt::format("group {} of split {} of {}", color, calls_, name_));
}

}  // namespace busbw
