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

StoreReply TcpStore::wait_for_reply(const StoreRequest& request) {
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
      const Bytes missing = send_and_wait({.op = StoreRequest::Op::missing, .key = request.key});
      throw wait_timeout_error(request, missing, limit_s_);
    }
    try {
      if (auto reply = decode_reply(*received)) return std::move(*reply);
    } catch (const BrokenMessage&) {
      callbacks_.on_lost_store("it sent an invalid message");
      throw JobAborted();
    }
  }
}

std::optional<StoreReply> TcpStore::decode_reply(const TcpChannel::ReceivedFrame& received) {
  MessageReader reader(received.body);
  if (received.kind == FrameKind::failure) {
    failure_ = unpack_failure(reader);
    callbacks_.on_failure(*failure_);
    throw JobAborted();
  }
  if (received.kind != FrameKind::reply) return std::nullopt;
  StoreReply reply;
  reply.number = reader.take<std::uint32_t>();
  reply.kind = reader.take<StoreReply::Kind>();
  reply.value = reader.take_bytes();
  return reply;
}

Bytes TcpStore::send_and_wait(StoreRequest request) {
  const std::uint32_t number = send(request);
  for (;;) {
    StoreReply reply = wait_for_reply(request);
    if (reply.number == number) return require_value(std::move(reply));
  }
}

void TcpStore::set(const std::string& key, std::span<const std::byte> value, int reads) {
  send_and_wait({.op = StoreRequest::Op::set, .key = key, .value = {value.begin(), value.end()}, .amount = reads});
}

Bytes TcpStore::get(const std::string& key) { return send_and_wait({.op = StoreRequest::Op::get, .key = key}); }

std::vector<Bytes> TcpStore::get_all(std::span<const std::string> keys) {
  std::map<std::uint32_t, std::size_t> pending;  // request number -> index of its key
  for (std::size_t i = 0; i < keys.size(); ++i) pending[send({.op = StoreRequest::Op::get, .key = keys[i]})] = i;
  std::vector<Bytes> values(keys.size());
  while (!pending.empty()) {
    StoreReply reply = wait_for_reply({.op = StoreRequest::Op::get, .key = keys[pending.begin()->second]});
    const auto answered = pending.find(reply.number);
    if (answered == pending.end()) continue;
    values[answered->second] = require_value(std::move(reply));
    pending.erase(answered);
  }
  return values;
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t amount) {
  return decode_sum(send_and_wait({.op = StoreRequest::Op::add, .key = key, .amount = amount}));
}

void TcpStore::barrier(const std::string& key, int member, int members) {
  send_and_wait({.op = StoreRequest::Op::barrier, .key = key, .amount = members, .member = member});
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
