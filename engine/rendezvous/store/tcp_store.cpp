// A rank's connection to the rendezvous store: sends requests and waits for the replies.
#include "rendezvous/store/tcp_store.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "common/os/ticker.hpp"
#include "common/support/number_list.hpp"

namespace busbw {
namespace {

/// Returns the value in a reply. Throws EnvironmentError if the store refused the request.
Bytes require_value(StoreReply reply) {
  if (reply.kind == StoreReply::Kind::done) return std::move(reply.value);
  const auto* reason = reinterpret_cast<const char*>(reply.value.data());
  throw EnvironmentError(fmt::format("the job's store refused a request: {}; install the same busbw everywhere",
                                     std::string_view(reason, reply.value.size())));
}

/// Error for a wait longer than `limit_s`. `missing`: value in the reply to an Op::missing request for the same key.
Error wait_timeout_error(const StoreRequest& request, const Bytes& missing, double limit_s) {
  const std::string remedy = "check their processes and hosts, or raise the limit with -T";
  if (request.op != StoreRequest::Op::barrier)
    return Error(ExitCode::rank_lost, fmt::format("waited {:g} s for {}; {}", limit_s, request.key, remedy));
  std::vector<int> missing_members;
  MessageReader reader(missing);
  for (std::size_t i = 0; i < missing.size() / sizeof(std::int32_t); ++i)
    missing_members.push_back(reader.take<std::int32_t>());
  return Error(ExitCode::rank_lost, fmt::format("waited {:g} s at {} for {} {}; {}", limit_s, request.key,
                                                missing_members.size() == 1 ? "member" : "members",
                                                number_list_text(missing_members), remedy));
}

}  // namespace

std::uint32_t TcpStore::send(StoreRequest request) {
  if (callbacks_.aborted()) throw JobAborted();
  request.number = next_number_++;
  channel_.send(FrameKind::request, MessageWriter().add(request).bytes());
  return request.number;
}

StoreReply TcpStore::wait_for_reply(const StoreRequest& request) {
  double waited_s = 0;
  for (;;) {
    // After an abort, replies that have already arrived still count, because they may complete the last row.
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
      const bool is_silent_store = request.op == StoreRequest::Op::missing;  // a store answers this request at once
      if (is_silent_store) throw wait_timeout_error(request, {}, limit_s_);
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
    callbacks_.on_failure(unpack_failure(reader));
    throw JobAborted();
  }
  if (received.kind != FrameKind::reply) return std::nullopt;
  return reader.take<StoreReply>();
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

std::vector<Bytes> TcpStore::get_all(std::span<const std::string> keys, std::span<const int> members) {
  std::map<std::uint32_t, std::size_t> pending;  // request number -> index of its key
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const int member = members.empty() ? -1 : members[i];
    pending[send({.op = StoreRequest::Op::get, .key = keys[i], .member = member})] = i;
  }
  std::vector<Bytes> values(keys.size());
  while (!pending.empty()) {
    const std::string& oldest_key = keys[pending.begin()->second];  // for the message of a timeout
    StoreReply reply = wait_for_reply({.op = StoreRequest::Op::get, .key = oldest_key});
    const auto answered = pending.find(reply.number);
    if (answered == pending.end()) continue;
    values[answered->second] = require_value(std::move(reply));
    pending.erase(answered);
  }
  return values;
}

void TcpStore::barrier(const std::string& key, int member, int members) {
  send_and_wait({.op = StoreRequest::Op::barrier, .key = key, .amount = members, .member = member});
}

void TcpStore::report_phase(int index, Phase phase) {
  channel_.send(FrameKind::phase, MessageWriter().add(index).add(static_cast<std::uint8_t>(phase)).bytes());
}

}  // namespace busbw
