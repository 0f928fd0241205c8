// Measures how long NCCL's roots (unique ids) need to connect the ranks of a communicator, with simulated ranks that
// have no GPU. Each rank contacts its root as NCCL 2.30 does: it sends its address, and receives that of the next rank.
//
// Usage: nccl_roots LIBRARY RANKS ROOTS...    # LIBRARY: libnccl.so.2 of version 2.30
//
// Prints one line per number of roots: ranks, roots, then minimum, median and maximum time of all ranks in ms. The time
// includes NCCL's delay of the ranks of a root that has more than 256.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 7;
// NCCL delays the ranks of a root with more ranks than this, so that they do not all connect at once.
constexpr int kRanksWithoutDelay = 256;  // NCCL_UID_STAGGER_THRESHOLD
constexpr double kRanksPerSecond = 7000;  // NCCL_UID_STAGGER_RATE
constexpr std::int32_t kBootstrapSocket = 1;  // NCCL's kind of socket

using Address = std::array<char, 28>;  // a sockaddr_in6, of which IPv4 uses the first 16 bytes
using RingAddress = std::array<char, 128>;  // an Address, padded with zeros

/// Contents of a unique id.
struct Root {
  std::uint64_t magic;
  Address address;
};

/// Message of a rank to its root.
struct Contact {
  std::int32_t rank;
  std::int32_t ranks;
  std::int32_t root;
  std::int32_t roots;
  std::int32_t offset;
  Address own_address;  // the root connects to it
  RingAddress ring_address;  // the root passes it to the previous rank
};
static_assert(sizeof(Contact) == 176);

void require(bool is_good, const char* action) {
  if (!is_good) throw std::runtime_error(fmt::format("cannot {}: {}", action, std::strerror(errno)));
}

void send_all(int socket, const void* data, std::size_t bytes) {
  require(send(socket, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes), "send");
}

template <class Value>
Value receive(int socket) {
  Value value;
  require(recv(socket, &value, sizeof(value), MSG_WAITALL) == static_cast<ssize_t>(sizeof(value)), "receive");
  return value;
}

/// Distribution of ranks over roots: the first ranks % roots roots have one rank more.
struct Distribution {
  int ranks;
  int roots;

  int first_rank(int root) const { return root * (ranks / roots) + std::min(root, ranks % roots); }
  int ranks_of(int root) const { return first_rank(root + 1) - first_rank(root); }
};

class Rank {
 public:
  Rank(int rank, int root, Distribution distribution)
      : rank_(rank), root_(root), distribution_(distribution), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t bytes = sizeof(address);
    require(listener_ >= 0 && bind(listener_, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
                listen(listener_, 4) == 0 && getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0,
            "listen");
    std::memcpy(own_address_.data(), &address, sizeof(address));
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { close(listener_); }

  int number_at_root() const { return rank_ - distribution_.first_rank(root_); }

  std::chrono::duration<double> delay() const {
    const bool is_delayed = distribution_.ranks_of(root_) > kRanksWithoutDelay;
    return std::chrono::duration<double>(is_delayed ? number_at_root() / kRanksPerSecond : 0);
  }

  /// Sends this rank's address to its root. The first rank of a root follows the last rank of the previous root. So it
  /// also sends its address to the previous root.
  void send_contacts(const std::vector<Root>& roots) const {
    send_contact(roots, root_, rank_);
    if (roots.size() > 1 && number_at_root() == 0) {
      const int previous_rank = (rank_ + distribution_.ranks - 1) % distribution_.ranks;
      send_contact(roots, (root_ + distribution_.roots - 1) % distribution_.roots, previous_rank + 1);
    }
  }

  /// Receives the address of the next rank from the root.
  void receive_next_address() const {
    const int socket = accept(listener_, nullptr, nullptr);
    require(socket >= 0, "accept");
    receive<std::uint64_t>(socket);  // magic
    receive<std::int32_t>(socket);  // kind of the socket
    const auto message_bytes = receive<std::int32_t>(socket);
    if (message_bytes != sizeof(RingAddress)) throw std::runtime_error("the root sent another message; use NCCL 2.30");
    receive<RingAddress>(socket);
    close(socket);
  }

 private:
  void send_contact(const std::vector<Root>& roots, int root, int rank) const {
    const Root& called = roots[static_cast<std::size_t>(root)];
    Contact message{.rank = rank,
                    .ranks = distribution_.ranks,
                    .root = root,
                    .roots = distribution_.roots,
                    .offset = 0,
                    .own_address = own_address_,
                    .ring_address = {}};
    std::ranges::copy(own_address_, message.ring_address.begin());
    sockaddr_in address{};
    std::memcpy(&address, called.address.data(), sizeof(address));
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    require(socket >= 0 && connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "connect");
    const std::int32_t bytes = sizeof(message);
    send_all(socket, &called.magic, sizeof(called.magic));
    send_all(socket, &kBootstrapSocket, sizeof(kBootstrapSocket));
    send_all(socket, &bytes, sizeof(bytes));
    send_all(socket, &message, sizeof(message));
    close(socket);
  }

  int rank_;
  int root_;
  Distribution distribution_;
  int listener_;
  Address own_address_{};
};

using GetUniqueId = int (*)(std::array<char, 128>*);

std::vector<Root> make_roots(GetUniqueId get_unique_id, int count) {
  std::vector<Root> roots(static_cast<std::size_t>(count));
  for (Root& root : roots) {
    std::array<char, 128> id{};
    if (get_unique_id(&id) != 0) throw std::runtime_error("ncclGetUniqueId failed");
    std::memcpy(&root.magic, id.data(), sizeof(root.magic));
    std::memcpy(root.address.data(), id.data() + sizeof(root.magic), root.address.size());
  }
  return roots;
}

/// Returns the time in ms until every rank knows the address of the next rank.
double connect_ranks(const std::vector<Root>& roots, Distribution distribution) {
  const unsigned thread_count = std::max(1U, std::thread::hardware_concurrency() / 2);
  std::vector<std::vector<std::unique_ptr<Rank>>> slices(thread_count);
  for (int root = 0; root < distribution.roots; ++root)
    for (int rank = distribution.first_rank(root); rank < distribution.first_rank(root + 1); ++rank)
      slices[static_cast<unsigned>(rank) % thread_count].push_back(std::make_unique<Rank>(rank, root, distribution));
  for (auto& slice : slices)
    std::ranges::stable_sort(slice, {}, [](const auto& rank) { return rank->number_at_root(); });
  const auto start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (const auto& slice : slices)
      threads.emplace_back([&] {
        for (const auto& rank : slice) {
          std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(rank->delay()));
          rank->send_contacts(roots);
        }
        for (const auto& rank : slice) rank->receive_next_address();
      });
  }
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 4) {
    fmt::print(stderr, "usage: nccl_roots LIBRARY RANKS ROOTS...\n");
    return 2;
  }
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  const auto get_unique_id = library ? reinterpret_cast<GetUniqueId>(dlsym(library, "ncclGetUniqueId")) : nullptr;
  if (get_unique_id == nullptr) {
    fmt::print(stderr, "nccl_roots: {}\n", dlerror());
    return 3;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const int ranks = std::atoi(arguments[2]);
  for (int index = 3; index < argument_count; ++index) {
    const Distribution distribution{ranks, std::atoi(arguments[index])};
    std::vector<double> times_ms;
    for (int repetition = 0; repetition < kRepetitions; ++repetition)
      times_ms.push_back(connect_ranks(make_roots(get_unique_id, distribution.roots), distribution));
    std::ranges::sort(times_ms);
    fmt::print("{} {} {:.1f} {:.1f} {:.1f}\n", ranks, distribution.roots, times_ms.front(),
               times_ms[times_ms.size() / 2], times_ms.back());
  }
  return 0;
}
