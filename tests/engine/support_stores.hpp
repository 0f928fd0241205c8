#pragma once
// A rendezvous store with access for each member.
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/store/tcp_store_server.hpp"
#include "support_wire.hpp"

namespace busbw::test {

inline constexpr double kSafetyLimitS = 60;  // never reached unless a test hangs

/// A store with a connection of each member.
class TcpStores {
 public:
  TcpStores(int members, double limit_s) {
    std::vector<Descriptor> listeners;
    listeners.push_back(listen_at(loopback()));
    const Endpoint where = local_endpoint(listeners[0]);
    server_ = std::make_unique<TcpStoreServer>(std::move(listeners), ServerSettings{kToken, members, 1, 300, "here"});
    for (int i = 0; i < members; ++i) {
      auto aborted = std::make_shared<std::atomic<bool>>(false);
      const StoreCallbacks job{[aborted] { return aborted->load(); }, [aborted](const Failure&) { *aborted = true; },
                               [aborted](const std::string&) { *aborted = true; }};
      stores_.push_back(std::make_unique<TcpStore>(welcomed(where, {false, i, members, 1, 1, "here"}), job, limit_s));
    }
  }
  TcpStore& of(int member) { return *stores_[static_cast<std::size_t>(member)]; }
  TcpStoreServer& server() { return *server_; }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<std::unique_ptr<TcpStore>> stores_;
};

/// Runs `body` for every member, each in a thread. Returns the end of each: "", "aborted", or the error's exit code and
/// message.
inline std::vector<std::string> run_members(int members, const std::function<void(int member)>& body) {
  std::vector<std::string> ends(static_cast<std::size_t>(members));
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member)
    threads.emplace_back([&, member] {
      std::string& end = ends[static_cast<std::size_t>(member)];
      try {
        body(member);
      } catch (const JobAborted&) {
        end = "aborted";
      } catch (const Error& error) {
        end = std::to_string(static_cast<int>(error.exit())) + ": " + error.what();
      } catch (const std::exception& error) {
        end = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return ends;
}

}  // namespace busbw::test
