#include "team.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

namespace stress {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);

std::uint64_t progress_of_all(const Shared& shared) {
  std::uint64_t sum = 0;
  for (const auto& one : shared.progress) sum += one.load();
  return sum;
}

void say_where_all_are(const Shared& shared, int ranks) {
  std::printf("no progress for %d s; last of each rank:\n", kNoProgressS);
  for (int r = 0; r < ranks; ++r)
    std::printf("  rank %d: step %llu, %s\n", r, (unsigned long long)shared.progress[r].load(), shared.last[r]);
  std::fflush(stdout);
}

/// Waits until `is_over`. Returns false if there is no progress for too long.
bool watch(Shared& shared, int ranks, const std::function<bool()>& is_over) {
  std::uint64_t seen = 0;
  auto since = std::chrono::steady_clock::now();
  while (!is_over()) {
    std::this_thread::sleep_for(kLook);
    const std::uint64_t now = progress_of_all(shared);
    if (now != seen) {
      seen = now;
      since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - since > std::chrono::seconds(kNoProgressS)) {
      say_where_all_are(shared, ranks);
      return false;
    }
  }
  return true;
}

Team team_of(Shared& shared, int ranks, Mode mode, int executor) {
  Team team{shared, ranks, mode, {}};
  for (int r = 0; r < ranks; ++r)
    if (mode == Mode::single || r == executor) team.mine.push_back({r, mode == Mode::sharing ? 0 : r, {}});
  return team;
}

int run_processes(Shared& shared, int ranks, Mode mode, const std::function<void(Team&)>& act) {
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    if (child == 0) {
      Team team = team_of(shared, ranks, mode, r);
      act(team);
      std::fflush(nullptr);
      _exit(0);
    }
    children.push_back(child);
  }
  int code = 0;
  std::size_t left = children.size();
  const auto is_over = [&] {
    for (pid_t& child : children) {
      int status = 0;
      if (child <= 0 || waitpid(child, &status, WNOHANG) != child) continue;
      child = 0;
      --left;
      if (status != 0) code = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
      if (WIFSIGNALED(status)) std::printf("a process ended by signal %d\n", WTERMSIG(status));
    }
    return left == 0 || code != 0;
  };
  if (!watch(shared, ranks, is_over)) code = 4;
  for (const pid_t child : children)
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  return code;
}

}  // namespace

void Team::doing(const char* format, ...) const {
  std::va_list arguments;
  va_start(arguments, format);
  char text[sizeof shared.last[0]];
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (const Rank& one : mine) {
    std::snprintf(shared.last[one.rank], sizeof text, "%s", text);
    shared.progress[one.rank].fetch_add(1);
  }
}

void Team::barrier() const {
  if (executors() == 1) return;
  const int generation = shared.generation.load();
  if (shared.arrived.fetch_add(1) + 1 == executors()) {
    shared.arrived.store(0);
    shared.generation.fetch_add(1);
  } else {
    while (shared.generation.load() == generation) std::this_thread::sleep_for(std::chrono::microseconds(5));
  }
}

void Team::each(const std::function<void(Rank&, std::size_t)>& act) {
  for (std::size_t i = 0; i < mine.size(); ++i) {
    check(cudaSetDevice(mine[i].gpu), "cudaSetDevice");
    act(mine[i], i);
  }
}

void Team::grouped(const char* activity, const std::function<ncclResult_t(Rank&, std::size_t)>& call) {
  if (mine.size() > 1) check(ncclGroupStart(), "ncclGroupStart");
  each([&](Rank& rank, std::size_t i) { check(call(rank, i), activity); });
  if (mine.size() > 1) check(ncclGroupEnd(), activity);
}

std::vector<ncclComm_t> Team::new_communicators(ncclConfig_t* config) {
  doing("making a communicator");
  barrier();
  if (first()) check(ncclGetUniqueId(&shared.id), "ncclGetUniqueId");
  barrier();
  const ncclUniqueId id = shared.id;
  std::vector<ncclComm_t> made(mine.size());
  grouped("ncclCommInitRank", [&](Rank& one, std::size_t i) {
    return config ? ncclCommInitRankConfig(&made[i], ranks, id, one.rank, config)
                  : ncclCommInitRank(&made[i], ranks, id, one.rank);
  });
  doing("made a communicator");
  return made;
}

void Team::finish(const char* activity) {
  each([&](Rank& one, std::size_t) {
    for (const cudaStream_t stream : one.streams) check(cudaStreamSynchronize(stream), activity);
  });
}

void check(cudaError_t error, const char* activity) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", activity, cudaGetErrorString(error));
  std::fflush(stdout);
  _exit(3);
}

void check(ncclResult_t result, const char* activity) {
  if (result == ncclSuccess) return;
  std::printf("%s: %s\n", activity, ncclGetErrorString(result));
  std::fflush(stdout);
  _exit(3);
}

void wrong(Shared& shared, const char* format, ...) {
  if (shared.wrong.fetch_add(1) >= 20) return;
  std::va_list arguments;
  va_start(arguments, format);
  char text[600];
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::printf("WRONG: %s\n", text);
  std::fflush(stdout);
}

Shared& make_shared() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::printf("no memory to share\n");
    _exit(3);
  }
  return *new (memory) Shared{};
}

int run_team(Shared& shared, int ranks, Mode mode, const std::function<void(Team&)>& act) {
  int code = 0;
  if (mode == Mode::processes || mode == Mode::sharing) {
    code = run_processes(shared, ranks, mode, act);
  } else {
    std::atomic<int> left{mode == Mode::single ? 1 : ranks};
    std::vector<std::thread> threads;
    const int executors = left;
    for (int e = 0; e < executors; ++e)
      threads.emplace_back([&, e] {
        Team team = team_of(shared, ranks, mode, e);
        act(team);
        --left;
      });
    if (!watch(shared, ranks, [&] { return left == 0; })) _exit(4);
    for (auto& thread : threads) thread.join();
  }
  return code != 0 ? code : shared.wrong.load() != 0 ? 1 : 0;
}

}  // namespace stress
