// Measures the rendezvous of a job's many processes over loopback. A member is a thread that acts as one process of the
// job, with its own connections. A few forked processes contain the members; PROCESSES is their number.
// Prints JSON with the times of the first member, which runs alone in this process, and its peak memory.
//
//   rendezvous MEMBERS PROCESSES
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rendezvous/launched_job.hpp"

namespace {

using namespace busbw;

constexpr int kBarriers = 9;
constexpr int kGathers = 5;
constexpr int kSamples = 20;
constexpr double kJoinLimitS = 300;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Peak memory of this process, in bytes.
std::size_t peak_bytes() {
  constexpr std::string_view kPeakKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kPeakKey)) return std::strtoull(line.c_str() + kPeakKey.size(), nullptr, 10) * 1024;  // KiB
  return 0;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Times of one member, in seconds.
struct Figures {
  double rendezvous_s = 0;
  std::vector<double> barriers_s;
  std::vector<double> gathers_s;
};

/// Runs one member and fills in its figures. `start_s` is when the rendezvous began.
void run_member(int member, int members, int port, double start_s, Figures& figures) {
  Membership membership;
  membership.process = member;
  membership.processes = members;
  membership.store = TcpStoreAddress{{"127.0.0.1"}, port};
  membership.token = "bench";
  membership.join_limit_s = kJoinLimitS;
  membership.silence_s = 30;
  LaunchedJob job(membership, {.on_status = [](const std::string&) {}, .on_tick = [] {}});
  figures.rendezvous_s = now_s() - start_s;
  const auto team = job.team(member);
  const std::vector<double> samples(kSamples, 1e-6);
  const Bytes message = MessageWriter().add(samples).bytes();
  for (int i = 0; i < kBarriers; ++i) {
    const double begin_s = now_s();
    team->barrier();
    figures.barriers_s.push_back(now_s() - begin_s);
  }
  for (int i = 0; i < kGathers; ++i) {
    team->barrier();
    const double begin_s = now_s();
    team->gather(message);
    figures.gathers_s.push_back(now_s() - begin_s);
  }
  team->barrier();
}

/// Runs the members `first`, `first` + `step`, ... of one process. Returns the figures of member `first`.
Figures run_process(int first, int step, int members, int port, double start_s) {
  std::vector<Figures> figures(static_cast<std::size_t>(members));
  std::vector<std::thread> threads;
  for (int member = first; member < members; member += step)
    threads.emplace_back(
        [&, member] { run_member(member, members, port, start_s, figures[static_cast<std::size_t>(member)]); });
  for (std::thread& thread : threads) thread.join();
  return figures[static_cast<std::size_t>(first)];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int members = std::atoi(argv[1]);
  const int child_count = std::atoi(argv[2]);  // this process runs the first member alone and reports its memory
  if (members < 2 || child_count < 1) return 2;
  int port = 0;
  {
    const Descriptor probe = listen_at(endpoint_of("127.0.0.1", 0));
    port = local_endpoint(probe).port();
  }
  const double start_s = now_s();
  std::vector<pid_t> children;
  for (int i = 0; i < child_count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      run_process(1 + i, child_count, members, port, start_s);
      _exit(0);
    }
    children.push_back(child);
  }
  const Figures figures = run_process(0, members, members, port, start_s);
  const std::size_t peak = peak_bytes();
  bool all_succeeded = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    all_succeeded = all_succeeded && status == 0;
  }
  fmt::print(
      "{{\"members\": {}, \"rendezvous_s\": {:.4f}, \"barrier_s\": {:.5f}, \"gather_s\": {:.5f}, "
      "\"peak_bytes\": {}}}\n",
      members, figures.rendezvous_s, median(figures.barriers_s), median(figures.gathers_s), peak);
  return all_succeeded ? 0 : 1;
}
