#pragma once
// Runs a function as every rank of a job, in threads or forked processes, and collects the errors.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/team/local_job.hpp"
#include "support_team.hpp"

namespace busbw {

/// A rank's work. Returns its error, or an empty text.
using RankBody = std::function<std::string(Team& world)>;

inline std::string complaint_of(const RankBody& body, Team& world) {
  try {
    return body(world);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Runs `body` on every rank in a thread. Returns all errors; empty if all succeed.
inline std::string run_threads(int ranks, const RankBody& body) {
  const auto teams = ThreadTeam::make(ranks);
  std::vector<std::string> complaints(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadTeam& team = *teams[static_cast<std::size_t>(rank)];
      std::string& complaint = complaints[static_cast<std::size_t>(rank)];
      complaint = complaint_of(body, team);
      if (!complaint.empty()) team.abort();  // the others must not wait for this one
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& complaint : complaints) all += complaint;
  return all;
}

/// Runs `body` on every rank: rank r is thread r % threads of process r / threads. The processes print their errors.
inline std::string run_processes(int processes, int threads, const RankBody& body) {
  LocalJob job(processes * threads);
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<std::string> complaints(static_cast<std::size_t>(threads));
      std::vector<std::thread> ranks;
      for (int thread = 0; thread < threads; ++thread) {
        ranks.emplace_back([&, thread] {
          const auto team = job.team(process * threads + thread);
          std::string& complaint = complaints[static_cast<std::size_t>(thread)];
          complaint = complaint_of(body, *team);
          if (!complaint.empty()) job.abort(ExitCode::wrong_data, complaint);
        });
      }
      for (std::thread& rank : ranks) rank.join();
      bool good = true;
      for (const std::string& complaint : complaints) {
        if (complaint.empty()) continue;
        std::fprintf(stderr, "%s\n", complaint.c_str());
        good = false;
      }
      std::fflush(nullptr);
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  std::string all;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) all += "a process ended badly; ";
  }
  return all;
}

}  // namespace busbw
