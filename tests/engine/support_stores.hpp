#pragma once
// All kinds of rendezvous store, with access for each member, for tests that hold for every kind.
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/store/file_store.hpp"
#include "rendezvous/store/memory_store.hpp"
#include "rendezvous/store/tcp_store.hpp"
#include "rendezvous/store/tcp_store_server.hpp"
#include "support_wire.hpp"
#include "temporary_folder.hpp"

namespace busbw::test {

/// One store and each member's access to it.
class Stores {
 public:
  virtual ~Stores() = default;
  virtual Store& of(int member) = 0;
};

class MemoryStores final : public Stores {
 public:
  MemoryStores(int, double limit_s) : store_(limit_s) {}
  Store& of(int) override { return store_; }

 private:
  MemoryStore store_;
};

class FileStores final : public Stores {
 public:
  FileStores(int members, double limit_s) {
    for (int i = 0; i < members; ++i)
      stores_.push_back(std::make_unique<FileStore>(folder_.path() + "/store", limit_s));
  }
  Store& of(int member) override { return *stores_[static_cast<std::size_t>(member)]; }

 private:
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<FileStore>> stores_;
};

class TcpStores final : public Stores {
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
  Store& of(int member) override { return *stores_[static_cast<std::size_t>(member)]; }
  TcpStoreServer& server() { return *server_; }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<std::unique_ptr<TcpStore>> stores_;
};

struct StoreKind {
  const char* name;
  std::unique_ptr<Stores> (*make)(int members, double limit_s);
};
template <class Kind>
std::unique_ptr<Stores> make_stores(int members, double limit_s) {
  return std::make_unique<Kind>(members, limit_s);
}
inline constexpr std::array kStoreKinds{StoreKind{"memory", make_stores<MemoryStores>},
                                        StoreKind{"file", make_stores<FileStores>},
                                        StoreKind{"tcp", make_stores<TcpStores>}};

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
