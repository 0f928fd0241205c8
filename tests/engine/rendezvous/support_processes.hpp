#pragma once
// The processes of a launched job as threads of a test, and stand-ins for some of them.
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

/// Does `body` as each process of a job; how each ended, as run_members says it. An Aborted becomes the job's failure.
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
      const auto why = job.failure();
      if (!why) throw;
      throw Error(why->exit, why->message);
    }
  });
}

/// A process other than the first, by hand: it beats only when it is told to.
class StandIn {
 public:
  StandIn(int port, int process, int processes)
      : control_(std::make_unique<TcpChannel>(connect(port, process, processes, true))),
        store_(std::make_unique<TcpStore>(
            connect(port, process, processes, false),
            StoreCallbacks{[] { return false; }, [](const Failure&) {}, [](const std::string&) {}}, kPatienceMs * 1e-3)) {
    std::vector<int> everybody(static_cast<std::size_t>(processes));
    std::iota(everybody.begin(), everybody.end(), 0);
    IssuedOperations nobody_looks;
    StoreTeam team(*store_, {[] { return false; }, [](std::optional<Phase>) {}, nobody_looks}, everybody, process,
                   "the processes");
    team.barrier();
  }

  void tell(Phase phase) { store_->report_phase(0, phase); }
  void say(FrameKind kind, std::span<const std::byte> body) { control_->send(kind, body); }
  void die() {
    store_.reset();
    control_.reset();
  }

 private:
  static TcpChannel connect(int port, int process, int processes, bool is_process) {
    const ClientInfo greeting{is_process, process, processes, 1, 4711, "elsewhere"};
    for (int i = 0; i < kPatienceMs / kTickMs; ++i) {
      ConnectResult connected = connect_to(loopback(port), kPatienceMs / kTickMs, [] { return false; });
      if (connected.socket.is_open()) {
        TcpChannel channel(std::move(connected.socket));
        if (greet(channel, greeting).kind == ClientHandshake::HandshakeResult::Kind::welcome) return channel;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("the stand-in was not let in");
  }

  std::unique_ptr<TcpChannel> control_;
  std::unique_ptr<TcpStore> store_;
};

/// A first process by hand: it welcomes everybody and answers everything with an empty value, until it is told to do
/// something else.
class StandInServer {
 public:
  enum class Does { answers, nothing, closes, welcomes_nobody, talks_nonsense, speaks_version_9 };

  explicit StandInServer(Does does) : listener_(listen_at(loopback())), does_(does) {
    thread_ = std::thread([this] { serve(); });
  }
  ~StandInServer() {
    stops_ = true;
    thread_.join();
  }
  int port() const { return local_endpoint(listener_).port(); }
  void now(Does does) { does_ = does; }

 private:
  struct Guest {
    TcpChannel channel;
    std::optional<ServerHandshake> handshake;
  };

  void serve() {
    std::vector<Guest> guests;
    while (!stops_) {
      pollfd waiting{listener_.number(), POLLIN, 0};
      if (poll(&waiting, 1, 1) == 1) {
        Descriptor socket(accept(listener_.number(), nullptr, nullptr));
        set_nonblocking_nodelay(socket);
        guests.push_back({TcpChannel(std::move(socket)), {}});
      }
      const Does does = does_;
      if (does == Does::closes) guests.clear();
      if (does == Does::nothing) continue;
      for (Guest& guest : guests) {
        while (const auto received = guest.channel.receive(0)) answer(guest, *received, does);
        if (does == Does::talks_nonsense) guest.channel.send(FrameKind::failure, bytes_of("?"));
      }
    }
  }
  static void answer(Guest& guest, const TcpChannel::ReceivedFrame& received, Does does) {
    if (does == Does::welcomes_nobody) return;
    TcpChannel& channel = guest.channel;
    switch (received.kind) {
      case FrameKind::hello:
        if (does == Does::speaks_version_9) return channel.send(FrameKind::hello, bytes_of("bswbrol9"));
        guest.handshake.emplace(received.body);
        return channel.send(FrameKind::challenge, guest.handshake->challenge());
      case FrameKind::greeting: return channel.send(FrameKind::welcome, guest.handshake->welcome(kToken, "far"));
      case FrameKind::heartbeat: return channel.send(FrameKind::heartbeat, {});
      case FrameKind::request: {
        const auto number = StoreRequest::unpack(received.body).number;
        return channel.send(
            FrameKind::answer,
            MessageWriter().add(number).add(StoreReply::Kind::done).add(std::span<const std::byte>()).bytes());
      }
      default: return;
    }
  }

  Descriptor listener_;
  std::atomic<Does> does_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace busbw::test
