#include "rendezvous/store/tcp_store.hpp"

#include <map>
#include <utility>

#include "common/os/ticker.hpp"
#include "rendezvous/store/store_replies.hpp"

namespace busbw {

std::uint32_t TcpStore::send(StoreRequest request) {
  if (job_.aborted()) throw JobAborted();
  request.number = next_number_++;
  channel_.send(FrameKind::request, request.packed());
  return request.number;
}

StoreReply TcpStore::wait(const StoreRequest& what) {
  for (double waited_s = 0;;) {
    // What was answered before the job was aborted still counts: a last row may be in it.
    const bool aborted = job_.aborted();
    const auto received = channel_.receive(aborted ? 0 : kTickMs);
    if (!received) {
      if (aborted && (channel_.idle() || channel_.ended())) throw JobAborted();
      if (channel_.ended()) {
        job_.on_lost_store("its connection closed before the job had ended");
        throw JobAborted();
      }
      if (channel_.idle()) waited_s += kTickMs * 1e-3;
      if (waited_s < limit_s_) continue;
      if (what.op == StoreRequest::Op::missing) throw wait_timeout_error(what, {}, limit_s_);
      const Bytes missing = ask({StoreRequest::Op::missing, 0, what.key, {}, 0, 0});
      throw wait_timeout_error(what, missing, limit_s_);
    }
    try {
      if (auto answer = answer_in(*received)) return std::move(*answer);
    } catch (const BrokenMessage&) {
      job_.on_lost_store("what it said cannot be understood");
      throw JobAborted();
    }
  }
}

std::optional<StoreReply> TcpStore::answer_in(const TcpChannel::ReceivedFrame& received) {
  MessageReader reader(received.body);
  if (received.kind == FrameKind::failure) {
    failure_ = unpack_failure(reader);
    job_.on_failure(*failure_);
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
  std::map<std::uint32_t, std::size_t> asked;
  for (std::size_t i = 0; i < keys.size(); ++i) asked[send({StoreRequest::Op::get, 0, keys[i], {}, 0, 0})] = i;
  std::vector<Bytes> values(keys.size());
  while (!asked.empty()) {
    StoreReply answer = wait({StoreRequest::Op::get, 0, keys[asked.begin()->second], {}, 0, 0});
    const auto found = asked.find(answer.number);
    if (found == asked.end()) continue;
    values[found->second] = value_of(std::move(answer));
    asked.erase(found);
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

void TcpStore::abort(const Failure& why) noexcept {
  try {
    channel_.send(FrameKind::abort, packed(why));
  } catch (const std::exception&) {
    // Without memory for a few bytes nobody can be told.
  }
}

}  // namespace busbw
