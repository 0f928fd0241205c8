#include "rendezvous/store/tcp_store.hpp"

#include <map>
#include <utility>

#include "common/os/ticker.hpp"
#include "rendezvous/store/store_replies.hpp"

namespace busbw {

std::uint32_t TcpStore::send(StoreRequest request) {
  if (callbacks_.aborted()) throw JobAborted();
  request.number = next_number_++;
  channel_.send(FrameKind::request, request.packed());
  return request.number;
}

StoreReply TcpStore::wait(const StoreRequest& request) {
  for (double waited_s = 0;;) {
    // Replies sent before the abort still count, because they may complete the last row.
    const bool aborted = callbacks_.aborted();
    const auto received = channel_.receive(aborted ? 0 : kTickMs);
    if (!received) {
      if (aborted && (channel_.idle() || channel_.ended())) throw JobAborted();
      if (channel_.ended()) {
        callbacks_.on_lost_store("its connection closed before the job ended");
        throw JobAborted();
      }
      if (channel_.idle()) waited_s += kTickMs * 1e-3;
      if (waited_s < limit_s_) continue;
      if (request.op == StoreRequest::Op::missing) throw wait_timeout_error(request, {}, limit_s_);
      const Bytes missing = ask({StoreRequest::Op::missing, 0, request.key, {}, 0, 0});
      throw wait_timeout_error(request, missing, limit_s_);
    }
    try {
      if (auto answer = answer_in(*received)) return std::move(*answer);
    } catch (const BrokenMessage&) {
      callbacks_.on_lost_store("it sent an invalid message");
      throw JobAborted();
    }
  }
}

std::optional<StoreReply> TcpStore::answer_in(const TcpChannel::ReceivedFrame& received) {
  MessageReader reader(received.body);
  if (received.kind == FrameKind::failure) {
    failure_ = unpack_failure(reader);
    callbacks_.on_failure(*failure_);
    throw JobAborted();
  }
  if (received.kind != FrameKind::answer) return std::nullopt;
  StoreReply answer;
  answer.number = reader.take<std::uint32_t>();
  answer.kind = reader.take<StoreReply::Kind>();
  answer.value = reader.take_bytes();
  return answer;
}

Bytes TcpStore::ask(StoreRequest request) {
  const std::uint32_t number = send(request);
  for (;;) {
    StoreReply answer = wait(request);
    if (answer.number == number) return value_of(std::move(answer));
  }
}

void TcpStore::set(const std::string& key, std::span<const std::byte> value, int reads) {
  ask({StoreRequest::Op::set, 0, key, {value.begin(), value.end()}, reads, 0});
}

Bytes TcpStore::get(const std::string& key) { return ask({StoreRequest::Op::get, 0, key, {}, 0, 0}); }

std::vector<Bytes> TcpStore::get_all(std::span<const std::string> keys) {
  std::map<std::uint32_t, std::size_t> pending;
  for (std::size_t i = 0; i < keys.size(); ++i) pending[send({StoreRequest::Op::get, 0, keys[i], {}, 0, 0})] = i;
  std::vector<Bytes> values(keys.size());
  while (!pending.empty()) {
    StoreReply answer = wait({StoreRequest::Op::get, 0, keys[pending.begin()->second], {}, 0, 0});
    const auto found = pending.find(answer.number);
    if (found == pending.end()) continue;
    values[found->second] = value_of(std::move(answer));
    pending.erase(found);
  }
  return values;
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t amount) {
  return sum_of(ask({StoreRequest::Op::add, 0, key, {}, amount, 0}));
}

void TcpStore::barrier(const std::string& key, int member, int members) {
  ask({StoreRequest::Op::barrier, 0, key, {}, members, member});
}

void TcpStore::report_phase(int index, Phase phase) {
  channel_.send(FrameKind::phase, MessageWriter().add(index).add(static_cast<std::uint8_t>(phase)).bytes());
}

void TcpStore::abort(const Failure& failure) noexcept {
  try {
    channel_.send(FrameKind::abort, packed(failure));
  } catch (const std::exception&) {
    // Out of memory: the store cannot be informed.
  }
}

}  // namespace busbw
