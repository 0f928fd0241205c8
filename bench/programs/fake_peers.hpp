#pragma once
// Ranks of the fake NCCL in several processes, one in each. Their sends and receives move no data, but wait for each
// other as in NCCL. They meet in files, so that a rank can be killed at any time.
//
// BUSBW_PRETENDED_JOB: folder for these files. Without it, operations end at once.
// BUSBW_PRETENDED_DEAD_LINKS: pairs of ranks (BUSBW_RANK) between which operations never end, such as "0-1 2-3".
// BUSBW_PRETENDED_DEATH: the process kills itself in this call, such as "join 2" or "operation 3".
// BUSBW_PRETENDED_GPU_ERROR: the GPU of the process fails in this call.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace busbw::test {

/// True after a call that BUSBW_PRETENDED_GPU_ERROR names.
inline bool has_gpu_failed = false;

/// Kills this process, or lets its GPU fail, if a variable names this call.
inline void fail_if_requested(const std::string& call, int number) {
  const auto is_named = [name = call + " " + std::to_string(number)](const char* variable) {
    const char* const text = std::getenv(variable);
    return text && text == name;
  };
  if (is_named("BUSBW_PRETENDED_DEATH")) raise(SIGKILL);
  if (is_named("BUSBW_PRETENDED_GPU_ERROR")) has_gpu_failed = true;
}

/// One rank of a communicator.
class FakePeers {
 public:
  static bool are_requested() { return std::getenv("BUSBW_PRETENDED_JOB") != nullptr; }

  /// Joins the communicator `name`, which is unique in the folder.
  FakePeers(const std::string& name, int rank, int ranks)
      : prefix_(std::getenv("BUSBW_PRETENDED_JOB") + ("/" + name)), rank_(rank), ranks_(ranks) {
    static int join_count = 0;
    fail_if_requested("join", ++join_count);
    if (has_gpu_failed) return;
    create_file(join_path(rank), std::getenv("BUSBW_RANK"));
  }
  /// True if all ranks have joined.
  bool have_joined() const {
    for (int rank = 0; rank < ranks_; ++rank)
      if (!exists(join_path(rank))) return false;
    return true;
  }
  /// Adds an operation of this rank with peers, each of which adds an operation with this rank.
  void add_operation(const std::set<int>& peers) {
    static int operation_count = 0;
    fail_if_requested("operation", ++operation_count);
    Operation operation;
    for (const int peer : peers) operation[peer] = ++operation_counts_[peer];
    operations_.push_back(operation);
  }
  /// True if all operations have ended. An operation starts after the previous one has ended, and ends after it has
  /// started on all its peers.
  bool have_finished() {
    for (; !operations_.empty(); operations_.pop_front()) {
      for (const auto& [peer, number] : operations_.front()) create_file(operation_path(rank_, peer, number), "");
      for (const auto& [peer, number] : operations_.front())
        if (is_link_dead(peer) || !exists(operation_path(peer, rank_, number))) return false;
    }
    return true;
  }

 private:
  /// Path of the file that says that `rank` has joined. It contains the rank's number in the job.
  std::string join_path(int rank) const { return prefix_ + "-" + std::to_string(rank); }
  /// Path of the file that says that operation `number` of `rank` with `peer` has started.
  std::string operation_path(int rank, int peer, int number) const {
    return join_path(rank) + "-" + std::to_string(peer) + "-" + std::to_string(number);
  }
  static bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }
  /// Writes a file that other processes see only as a whole.
  static void create_file(const std::string& path, const std::string& text) {
    const std::string unfinished = path + ".unfinished";
    std::ofstream(unfinished) << text;
    std::rename(unfinished.c_str(), path.c_str());
  }
  bool is_link_dead(int peer) const {
    const char* const links = std::getenv("BUSBW_PRETENDED_DEAD_LINKS");
    if (!links) return false;
    std::string peer_of_job;
    std::ifstream(join_path(peer)) >> peer_of_job;
    const std::string own = std::getenv("BUSBW_RANK");
    const std::string list = std::string(" ") + links + " ";
    return list.find(" " + own + "-" + peer_of_job + " ") != list.npos ||
           list.find(" " + peer_of_job + "-" + own + " ") != list.npos;
  }

  using Operation = std::map<int, int>;  // number among the operations with each peer

  std::string prefix_;
  int rank_;
  int ranks_;
  std::map<int, int> operation_counts_;  // by peer
  std::deque<Operation> operations_;
};

}  // namespace busbw::test
