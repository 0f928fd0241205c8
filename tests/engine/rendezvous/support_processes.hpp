#pragma once
// Processes of a launched job as threads of a test, and fakes of some of them.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/ticker.hpp"
#include "rendezvous/launched_job.hpp"
#include "rendezvous/store_team.hpp"
#include "support_stores.hpp"

namespace busbw::test {

inline Membership member_of(int process, int processes, const StoreAddress& store) {
  Membership membership;
  membership.process = process;
  membership.processes = processes;
  membership.store = store;
  membership.token = kToken;
  return membership;
}

inline StoreAddress at_loopback(int port) { return TcpStoreAddress{{"127.0.0.1"}, port}; }

inline JoinCallbacks silent() {
  return {[](const std::string&) {}, [] {}};
}

/// Runs `body` as each process of a job. Returns how each ended, as run_members does; JobAborted becomes the failure.
inline std::vector<std::string> run_job_of(
    int processes, const StoreAddress& store, const std::function<void(LaunchedJob&, int process)>& body,
    const std::function<void(Membership&)>& change = [](Membership&) {}) {
  return run_members(processes, [&](int process) {
    Membership membership = member_of(process, processes, store);
    change(membership);
    LaunchedJob job(membership, silent());
    try {
      body(job, process);
    } catch (const JobAborted&) {
      const auto failure = job.failure();
      if (!failure) throw;
      throw Error(failure->exit, failure->message);
    }
  });
}

/// A fake process other than process 0. It sends frames only when the test requests them.
class FakeProcess {
 public:
  FakeProcess(int port, int process, int processes)
      : control_(std::make_unique<TcpChannel>(connect(port, process, processes, true))),
        store_(std::make_unique<TcpStore>(
            connect(port, process, processes, false),
            StoreCallbacks{[] { return false; }, [](const Failure&) {}, [](const std::string&) {}},
            kTimeoutMs * 1e-3)) {
    std::vector<int> all_members(static_cast<std::size_t>(processes));
    std::iota(all_members.begin(), all_members.end(), 0);
    LocalRank state;
    StoreTeam team(*store_, state, all_members, process, "the processes");
    team.broadcast({});
  }

  void report_phase(Phase phase) { store_->report_phase(0, phase); }
  void send(FrameKind kind, std::span<const std::byte> body) { control_->send(kind, body); }
  void disconnect() {
    store_.reset();
    control_.reset();
  }

 private:
  static TcpChannel connect(int port, int process, int processes, bool is_control) {
    const ClientInfo greeting{is_control, process, processes, 1, 4711, "elsewhere"};
    for (int i = 0; i < kTimeoutMs / kTickMs; ++i) {
      ConnectResult connected = connect_to(loopback(port), kTimeoutMs / kTickMs, [] { return false; });
      if (connected.socket.is_open()) {
        TcpChannel channel(std::move(connected.socket));
        if (greet(channel, greeting).kind == ClientHandshake::HandshakeResult::Kind::welcome) return channel;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("the fake process was rejected");
  }

  std::unique_ptr<TcpChannel> control_;
  std::unique_ptr<TcpStore> store_;
};

/// A fake process 0. It accepts every client and answers every request with an empty broadcast, until the test changes
/// its behavior.
class FakeServer {
 public:
  enum class Behavior { answers, nothing, closes, ignores_clients, sends_invalid_frames, uses_version_9 };

  explicit FakeServer(Behavior behavior) : listener_(listen_at(loopback())), behavior_(behavior) {
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    stops_ = true;
    thread_.join();
  }
  int port() const { return local_endpoint(listener_).port(); }
  void set_behavior(Behavior behavior) { behavior_ = behavior; }
  /// Number of heartbeats from all clients so far.
  int heartbeats() const { return heartbeats_; }
  /// Message of the last failure that a client has sent. Empty before.
  std::string failure_message() const {
    const std::scoped_lock lock(mutex_);
    return failure_message_;
  }

 private:
  struct ClientConnection {
    TcpChannel channel;
    std::optional<ServerHandshake> handshake;
  };

  void serve() {
    std::vector<ClientConnection> connections;
    while (!stops_) {
      pollfd waiting{listener_.number(), POLLIN, 0};
      if (poll(&waiting, 1, 1) == 1) {
        Descriptor socket(accept(listener_.number(), nullptr, nullptr));
        set_nonblocking_nodelay(socket);
        connections.push_back({TcpChannel(std::move(socket)), {}});
      }
      const Behavior behavior = behavior_;
      if (behavior == Behavior::closes) connections.clear();
      if (behavior == Behavior::nothing) continue;
      for (ClientConnection& connection : connections) {
        while (const auto received = connection.channel.receive(0)) answer(connection, *received, behavior);
        if (behavior == Behavior::sends_invalid_frames) connection.channel.send(FrameKind::failure, bytes_of("?"));
      }
    }
  }
  void answer(ClientConnection& connection, const TcpChannel::ReceivedFrame& received, Behavior behavior) {
    if (behavior == Behavior::ignores_clients) return;
    TcpChannel& channel = connection.channel;
    switch (received.kind) {
      case FrameKind::hello:
        if (behavior == Behavior::uses_version_9) return channel.send(FrameKind::hello, bytes_of("bswbrol9"));
        connection.handshake.emplace(received.body);
        return channel.send(FrameKind::challenge, connection.handshake->challenge());
      case FrameKind::greeting: return channel.send(FrameKind::welcome, connection.handshake->welcome(kToken, "far"));
      case FrameKind::heartbeat: ++heartbeats_; return channel.send(FrameKind::heartbeat, {});
      case FrameKind::abort: {
        MessageReader reader(received.body);
        const std::scoped_lock lock(mutex_);
        failure_message_ = unpack_failure(reader).message;
        return;
      }
      case FrameKind::request: {
        const auto number = MessageReader(received.body).take<StoreRequest>().number;
        const Bytes broadcast = MessageWriter().add(std::size_t{0}).add(std::span<const std::byte>()).bytes();
        return channel.send(
            FrameKind::reply,
            MessageWriter().add(number).add(StoreReply::Kind::done).add(std::span<const std::byte>(broadcast)).bytes());
      }
      default: return;
    }
  }

  Descriptor listener_;
  std::atomic<Behavior> behavior_;
  std::atomic<bool> stops_{false};
  std::atomic<int> heartbeats_{0};
  mutable std::mutex mutex_;  // guards failure_message_
  std::string failure_message_;
  std::thread thread_;
};

}  // namespace busbw::test
