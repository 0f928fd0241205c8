#include "rendezvous/launched_job.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "common/os/provenance.hpp"
#include "support_errors.hpp"
#include "support_processes.hpp"
#include "temporary_folder.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

const std::vector<std::string> kThreeWell(3);

// Limits that these tests reach. Handshakes must finish within them on a busy machine.
constexpr double kJoinLimitS = 3;   // several threads must join
constexpr double kAnswerLimitS = 2;  // a listener must answer

/// Waits as a rank until the job is aborted. Returns the failure message.
std::string failure_of(LaunchedJob& job, int rank) {
  try {
    const auto team = job.team(rank);
    for (;;) team->gather({});
  } catch (const JobAborted&) {
  }
  REQUIRE(job.failure());
  CHECK(job.failure()->exit == ExitCode::rank_lost);
  return job.failure()->message;
}

/// Runs process 0 of two with a fake process 1. Returns the failure message.
std::string failure_with_fake_process(double silence_s, const std::function<void(FakeProcess&)>& behavior) {
  const int port = free_port();
  std::string sentence;
  std::thread other([&] {
    FakeProcess fake(port, 1, 2);
    behavior(fake);
  });
  Membership membership = member_of(0, 2, at_loopback(port));
  membership.silence_s = silence_s;
  {
    LaunchedJob job(membership, silent());
    sentence = failure_of(job, 0);
  }
  other.join();
  return sentence;
}

/// Runs process 1 of two with `server` as process 0, which changes to `behavior`. Returns the failure message.
std::string failure_with_fake_server(FakeServer& server, FakeServer::Behavior behavior, double silence_s) {
  Membership membership = member_of(1, 2, at_loopback(server.port()));
  membership.silence_s = silence_s;
  LaunchedJob job(membership, silent());
  const auto team = job.team(1);
  try {
    team->enter(Phase::timing);
    server.set_behavior(behavior);
    for (;;) {
      team->barrier();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const JobAborted&) {
  }
  REQUIRE(job.failure());
  CHECK(job.failure()->exit == ExitCode::rank_lost);
  return job.failure()->message;
}

std::string failure_with_fake_server(FakeServer::Behavior behavior, double silence_s) {
  FakeServer server(FakeServer::Behavior::answers);
  return failure_with_fake_server(server, behavior, silence_s);
}

std::string sentence_of_joining(const Membership& membership, const JoinCallbacks& callbacks = silent()) {
  return sentence_of<Error>([&] { const LaunchedJob job(membership, callbacks); });
}

}  // namespace

TEST_CASE("LaunchedJob: processes with several ranks each join one team") {
  const int port = free_port();
  std::array<std::atomic<int>, 6> sums{};
  CHECK(run_job_of(
            3, at_loopback(port),
            [&](LaunchedJob& job, int process) {
              CHECK(job.ranks() == 6);
              CHECK(job.watches_all_ranks() == (process == 0));
              CHECK(job.store_address_text() == "127.0.0.1:" + std::to_string(port));
              const auto ends = run_members(2, [&](int thread) {
                const int rank = 2 * process + thread;
                const auto team = job.team(rank);
                CHECK(team->rank() == rank);
                CHECK(team->size() == 6);
                for (int round = 0; round < 3; ++round) {
                  const auto all = team->gather(MessageWriter().add(rank).bytes());
                  int sum = 0;
                  for (const Bytes& one : all) sum += MessageReader(one).take<int>();
                  sums[static_cast<std::size_t>(rank)] +=
                      MessageReader(team->broadcast(MessageWriter().add(sum).bytes())).take<int>();
                }
                team->split(rank % 2)->barrier();
              });
              CHECK(ends == std::vector<std::string>(2));
              CHECK_FALSE(job.failure());
            },
            [](Membership& membership) { membership.ranks_per_process = 2; }) == kThreeWell);
  for (const auto& sum : sums) CHECK(sum == 45);
}

TEST_CASE("LaunchedJob: a job of one process") {
  CHECK(run_job_of(1, at_loopback(free_port()), [](LaunchedJob& job, int) {
          const auto team = job.team(0);
          team->barrier();
          CHECK(team->gather({}).size() == 1);
          CHECK(job.with_rank_name(0, "it is so") == "rank 0 on " + host_name() + ": it is so");
        }) == std::vector<std::string>(1));
}

TEST_CASE("LaunchedJob: process 0 knows the progress of all ranks, and names them with their hosts") {
  const int port = free_port();
  std::atomic<bool> is_checked{false};
  CHECK(run_job_of(2, at_loopback(port), [&](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          if (process == 1) {
            team->issued().next(1024);
            team->issued().next(2048);
            team->enter(Phase::check);
          }
          if (process == 0) {
            while (job.progress(1).phase != Phase::check || job.progress(1).steps == 0 ||
                   job.progress(1).operations == 0)
              std::this_thread::sleep_for(std::chrono::milliseconds(5));
            CHECK(job.progress(1).operations == 2);
            CHECK(job.progress(1).operation_bytes == 2048);
            CHECK(job.rank_name(1) == "rank 1 on " + host_name());
            is_checked = true;
          }
          while (!is_checked) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          team->barrier();
        }) == std::vector<std::string>(2));
}

TEST_CASE("LaunchedJob: 256 processes join") {
  CHECK(run_job_of(256, at_loopback(free_port()), [](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          const auto all = team->gather(MessageWriter().add(process).bytes());
          for (std::size_t i = 0; i < all.size(); ++i) CHECK(MessageReader(all[i]).take<int>() == static_cast<int>(i));
          CHECK(all.size() == (process == 0 ? 256 : 0));
          team->barrier();
        }) == std::vector<std::string>(256));
}

TEST_CASE("LaunchedJob: agree returns the decision of process 0 everywhere; an error in it ends the job") {
  CHECK(run_job_of(3, at_loopback(free_port()), [](LaunchedJob& job, int process) {
          const auto decide = [](const std::vector<Bytes>& messages) {
            int sum = 0;
            for (const Bytes& one : messages) sum += MessageReader(one).take<int>();
            return MessageWriter().add(sum).bytes();
          };
          CHECK(MessageReader(job.agree(MessageWriter().add(process + 1).bytes(), decide)).take<int>() == 6);
        }) == kThreeWell);
  const auto refuse = [](const std::vector<Bytes>&) -> Bytes { throw UsageError("they differ; start them alike"); };
  CHECK(run_job_of(3, at_loopback(free_port()), [&](LaunchedJob& job, int) { job.agree({}, refuse); }) ==
        std::vector<std::string>(3, "2: they differ; start them alike"));
}

// ---- failures -------------------------------------------------------------------------------------------------------

TEST_CASE("LaunchedJob: an abort in any process ends all waits with its message and exit code") {
  for (int selected = 0; selected < 3; ++selected) {
    CAPTURE(selected);
    CHECK(run_job_of(3, at_loopback(free_port()), [selected](LaunchedJob& job, int process) {
            const auto team = job.team(process);
            team->barrier();
            if (process == selected)
              job.abort(ExitCode::wrong_data, "process " + std::to_string(selected) + " gave up");
            for (;;) team->barrier();
          }) == std::vector<std::string>(3, "1: process " + std::to_string(selected) + " gave up"));
  }
}

TEST_CASE("LaunchedJob: concurrent aborts end all processes with one failure") {
  const std::array exits{ExitCode::wrong_data, ExitCode::environment, ExitCode::rank_lost};
  for (int round = 0; round < 5; ++round) {
    const auto ends = run_job_of(3, at_loopback(free_port()), [&](LaunchedJob& job, int process) {
      const auto team = job.team(process);
      team->barrier();
      job.abort(exits[static_cast<std::size_t>(process)], "process " + std::to_string(process));
      for (;;) team->barrier();
    });
    CHECK(ends[0].find(": process ") == 1);
    CHECK(ends == std::vector<std::string>(3, ends[0]));
  }
}

TEST_CASE("LaunchedJob: names a lost process with its host and phase, in every phase") {
  for (const Phase phase : kPhases) {
    CAPTURE(name(phase));
    const std::string sentence = failure_with_fake_process(30, [&](FakeProcess& fake) {
      fake.report_phase(phase);
      fake.disconnect();
    });
    check_names(sentence, {"rank 1 (process 1, pid 4711 on elsewhere) was lost in phase " + std::string(name(phase)),
                           "its connection closed"});
  }
}

TEST_CASE("LaunchedJob: names a silent process with its phase") {
  std::atomic<bool> is_over{false};
  const int port = free_port();
  std::thread other([&] {
    FakeProcess fake(port, 1, 2);
    fake.report_phase(Phase::warmup);
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  Membership membership = member_of(0, 2, at_loopback(port));
  membership.silence_s = kJoinLimitS;
  {
    LaunchedJob job(membership, silent());
    check_names(failure_of(job, 0), {"rank 1 (process 1, pid 4711 on elsewhere) was lost in phase warmup",
                                     "it sent nothing for 3 s", "stopped", "network"});
    is_over = true;
  }
  other.join();
}

TEST_CASE("LaunchedJob: the other processes detect every kind of loss of process 0") {
  const std::string lost_text = "rank 0 (process 0 on far) was lost in phase timing: ";
  check_names(failure_with_fake_server(FakeServer::Behavior::closes, 30),
              {lost_text + "its connection closed", "check its output"});
  check_names(failure_with_fake_server(FakeServer::Behavior::nothing, 1),
              {lost_text + "it sent nothing for 1 s", "stopped"});
  check_names(failure_with_fake_server(FakeServer::Behavior::sends_invalid_frames, 30),
              {"lost its connection to process 0 on far in phase timing: ", "invalid message"});
}

TEST_CASE("LaunchedJob: a process 0 that was stopped receives its own loss when it continues") {
  FakeServer server(FakeServer::Behavior::answers);
  const std::string message = failure_with_fake_server(server, FakeServer::Behavior::nothing, 1);
  CHECK(server.failure_message().empty());
  server.set_behavior(FakeServer::Behavior::answers);
  for (int i = 0; i < kTimeoutMs / 10 && server.failure_message().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(server.failure_message() == message);
}

TEST_CASE("LaunchedJob: a process that leaves is not lost") {
  CHECK(run_job_of(3, at_loopback(free_port()), [](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          team->barrier();
          if (process == 2) return;
          if (process == 1) job.leave();
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          CHECK_FALSE(job.failure());
        }) == kThreeWell);
}

// ---- joining --------------------------------------------------------------------------------------------------------

TEST_CASE("LaunchedJob: missing processes are named at the limit, in all joined processes") {
  const int port = free_port();
  const auto ends = run_members(3, [&](int process) {
    if (process == 1) return;
    Membership membership = member_of(process, 3, at_loopback(port));
    membership.join_limit_s = kJoinLimitS;
    const LaunchedJob job(membership, silent());
  });
  for (const std::size_t process : {0U, 2U})
    check_names(ends[process], {"4: 1 of 3 processes has not joined: 1 (limit 3 s)", "firewall", "BUSBW_JOIN_TIMEOUT_S",
                                "which listens at 127.0.0.1:" + std::to_string(port)});
}

TEST_CASE("LaunchedJob: the wait for a joined process without a message ends at the limit") {
  const int port = free_port();
  const auto ends = run_members(2, [&](int process) {
    Membership membership = member_of(process, 2, at_loopback(port));
    membership.step_limit_s = kJoinLimitS;
    LaunchedJob job(membership, silent());
    if (process == 0) job.agree({}, [](const std::vector<Bytes>&) { return Bytes(); });
    while (!job.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    throw Error(job.failure()->exit, job.failure()->message);
  });
  for (const std::string& end : ends) check_names(end, {"4: ", "waited 3 s for gather", "from rank 1"});
}

TEST_CASE("LaunchedJob: a missing process 0 is named with the attempts") {
  Membership membership = member_of(3, 4, at_loopback(free_port()));
  membership.join_limit_s = 0.3;
  check_names(sentence_of_joining(membership), {"process 3 on " + host_name() + " could not reach process 0 in 0.3 s",
                                                "Connection refused", "BUSBW_RENDEZVOUS"});
  membership.store = TcpStoreAddress{{"no-such-host.invalid", "127.0.0.1"}, free_port()};
  check_names(sentence_of_joining(membership), {"could not reach process 0"});
  membership.store = TcpStoreAddress{{"localhost"}, free_port()};
  check_names(sentence_of_joining(membership), {"(localhost at "});
}

TEST_CASE("LaunchedJob: another program at the port is not the store") {
  FakeServer other(FakeServer::Behavior::ignores_clients);
  Membership membership = member_of(1, 2, at_loopback(other.port()));
  membership.join_limit_s = kAnswerLimitS;
  check_names(sentence_of_joining(membership), {"could not reach process 0", "is not the store of this job"});
}

TEST_CASE("LaunchedJob: process 0 of another version is named with both versions") {
  FakeServer other(FakeServer::Behavior::uses_version_9);
  Membership membership = member_of(1, 2, at_loopback(other.port()));
  membership.join_limit_s = kAnswerLimitS;
  check_names(sentence_of<EnvironmentError>([&] { const LaunchedJob job(membership, silent()); }),
              {"process 1 was rejected by 127.0.0.1:", "it uses version 9", "this process version 4",
               "the same busbw everywhere"});
}

TEST_CASE("LaunchedJob: process 0 names a client of another version, and continues to wait") {
  const int port = free_port();
  Membership membership = member_of(0, 2, at_loopback(port));
  membership.join_limit_s = 3;
  std::string status;
  const auto ends = run_members(2, [&](int i) {
    if (i == 0) {
      const LaunchedJob job(membership, {[&](const std::string& sentence) { status += sentence + "\n"; }, [] {}});
    } else {
      RawClient client(loopback(port));
      client.send(FrameKind::hello, bytes_of("bswbrol9, and what that may say"));
      CHECK(client.is_rejected());
    }
  });
  const std::string sentence =
      "a client at 127.0.0.1 uses version 9 of busbw's protocol, process 0 version 4; install the same busbw "
      "everywhere";
  check_names(status, {"1 of 2 processes has not joined: 1; " + sentence});
  check_names(ends[0], {"4: 1 of 2 processes has not joined: 1 (limit 3 s)", "1 connection was rejected", sentence});
}

TEST_CASE("LaunchedJob: skips a dead address among several") {
  const int port = free_port();
  CHECK(run_job_of(
            2, TcpStoreAddress{{"no-such-host.invalid", "127.0.0.9", "127.0.0.1"}, port},
            [&](LaunchedJob& job, int) { job.team(0); },
            [&](Membership& membership) {
              if (membership.process == 0) membership.store = at_loopback(port);
            }) == std::vector<std::string>(2));
}

TEST_CASE("LaunchedJob: rejects another token, and the job continues") {
  const int port = free_port();
  CHECK(run_job_of(2, at_loopback(port), [&](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          team->barrier();
          if (process == 0) {
            Membership other = member_of(1, 2, at_loopback(port));
            other.token = "another";
            other.join_limit_s = kAnswerLimitS;
            check_names(sentence_of<EnvironmentError>([&] { const LaunchedJob joining(other, silent()); }),
                        {"process 1 was rejected by 127.0.0.1", "the token differs", "BUSBW_TOKEN"});
            // Process 0 of another job finds the port in use.
            Membership first = member_of(0, 1, at_loopback(port));
            first.join_limit_s = 0.3;
            check_names(sentence_of_joining(first),
                        {"cannot listen at 127.0.0.1:" + std::to_string(port), "BUSBW_RENDEZVOUS"});
          }
          team->barrier();
          CHECK_FALSE(job.failure());
        }) == std::vector<std::string>(2));
}

TEST_CASE("LaunchedJob: processes with different job sizes end at once, each with the reason") {
  const int port = free_port();
  const auto ends = run_members(
      2, [&](int process) { const LaunchedJob job(member_of(process, 2 + process, at_loopback(port)), silent()); });
  check_names(ends[0], {"3: process 1 on ", "expects 3 processes, process 0 expects 2", "BUSBW_SIZE"});
  check_names(ends[1], {"3: process 1 was rejected by 127.0.0.1:", "expects 3 processes, process 0 expects 2"});
  const int other_port = free_port();
  const auto layouts = run_members(2, [&](int process) {
    Membership membership = member_of(process, 2, at_loopback(other_port));
    membership.ranks_per_process = 1 + process;
    const LaunchedJob job(membership, silent());
  });
  for (const std::string& end : layouts) check_names(end, {"2: ", "process 1 on ", "2 ranks, process 0 has 1"});
}

TEST_CASE("LaunchedJob: a process that joins a failed job receives the failure") {
  const int port = free_port();
  std::atomic<bool> has_failed{false};
  const auto ends = run_members(3, [&](int i) {
    if (i == 2) {
      while (!has_failed) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const LaunchedJob late(member_of(2, 3, at_loopback(port)), silent());
    } else if (i == 1) {
      try {
        const LaunchedJob other(member_of(1, 4, at_loopback(port)), silent());
      } catch (const Error&) {
        has_failed = true;
        throw;
      }
    } else {
      const LaunchedJob first(member_of(0, 3, at_loopback(port)), silent());
    }
  });
  for (const std::size_t i : {0U, 2U})
    check_names(ends[i], {"3: process 1 on ", "expects 4 processes, process 0 expects 3"});
}

TEST_CASE("LaunchedJob: a client with another token is reported at once, and the job continues to wait") {
  const int port = free_port();
  std::vector<std::string> status;
  std::atomic<bool> is_reported{false}, has_left{false};
  const auto ends = run_members(3, [&](int i) {
    if (i == 0) {
      const LaunchedJob job(member_of(0, 2, at_loopback(port)),
                            {[&](const std::string& sentence) {
                               status.push_back(sentence);
                               is_reported = is_reported || sentence.find("another token") != sentence.npos;
                             },
                             [] {}});
      return;
    }
    Membership membership = member_of(1, 2, at_loopback(port));
    if (i == 2) {  // a client without the token that claims to be process 1
      membership.token = "another";
      membership.join_limit_s = kAnswerLimitS;
      try {
        const LaunchedJob job(membership, silent());
      } catch (const Error&) {
        has_left = true;
        throw;
      }
    }
    while (!is_reported || !has_left) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const LaunchedJob job(membership, silent());
  });
  CHECK(ends[0].empty());
  CHECK(ends[1].empty());
  check_names(ends[2], {"3: ", "the token differs"});
  check_names(status.front(), {"1 of 2 processes has not joined: 1", "process 1 on ", "another token"});
}

TEST_CASE("LaunchedJob: two processes with one number end at once, each with the reason") {
  const int port = free_port();
  const auto ends =
      run_members(3, [&](int i) { const LaunchedJob job(member_of(std::min(i, 1), 3, at_loopback(port)), silent()); });
  for (const std::string& end : ends) check_names(end, {"3: ", "rank 1 (process 1, ", "already joined", "BUSBW_RANK"});
}

TEST_CASE("LaunchedJob: an interrupt while processes join ends all of them") {
  for (int selected = 0; selected < 3; ++selected) {
    CAPTURE(selected);
    const int port = free_port();
    std::array<std::atomic<int>, 3> ticks{};
    const int other = selected == 0 ? 2 : 0;
    const auto ends = run_members(3, [&](int process) {
      if (process != selected && process != other) return;  // one process is missing, otherwise all would continue
      // Process 0 listens before its second tick; after 8 ticks the others wait for missing processes.
      while (process != 0 && ticks[0] < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const LaunchedJob job(member_of(process, 3, at_loopback(port)),
                            {[](const std::string&) {},
                             [&] {
                               const auto own = static_cast<std::size_t>(process);
                               const auto other_index = static_cast<std::size_t>(other);
                               ++ticks[own];
                               if (process == selected && ticks[own] >= 8 && ticks[other_index] >= 8)
                                 throw Error(ExitCode::interrupted, "interrupted");
                             }});
    });
    CHECK(ends[static_cast<std::size_t>(selected)] == "130: interrupted");
    CHECK(ends[static_cast<std::size_t>(other)] == "130: interrupted");
  }
}

TEST_CASE("LaunchedJob: an interrupt ends the wait for a silent listener") {
  FakeServer other(FakeServer::Behavior::ignores_clients);
  int ticks = 0;
  const JoinCallbacks callbacks{[](const std::string&) {},
                                [&] {
                                  if (++ticks == 4) throw Error(ExitCode::interrupted, "interrupted");
                                }};
  CHECK(sentence_of_joining(member_of(1, 2, at_loopback(other.port())), callbacks) == "interrupted");
  CHECK(ticks == 4);
}

// ---- joining with a folder ------------------------------------------------------------------------------------------

TEST_CASE("LaunchedJob: processes join with a folder, without a token, and leave it empty") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store";
  for (int round = 0; round < 2; ++round) {
    CHECK(run_job_of(
              3, FileStoreAddress{path}, [](LaunchedJob& job, int process) { job.team(process)->barrier(); },
              [](Membership& membership) { membership.token.clear(); }) == kThreeWell);
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("LaunchedJob: a given token is not written to the folder or replaced by one from it") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store";
  CHECK(run_job_of(2, FileStoreAddress{path}, [&](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          team->barrier();
          const auto published = AddressFile(path).read();
          REQUIRE(published);
          CHECK(text_of(*published).find(kToken) == std::string::npos);
          team->barrier();
        }) == std::vector<std::string>(2));
  const auto ends = run_members(2, [&](int process) {
    Membership membership = member_of(process, 2, FileStoreAddress{path});
    membership.join_limit_s = kJoinLimitS;
    if (process == 0) membership.token.clear();
    const LaunchedJob job(membership, silent());
  });
  check_names(ends[1], {"3: process 1 was rejected by ", "the token differs"});
}

TEST_CASE("LaunchedJob: a folder of another job is an error, and is not changed") {
  const TemporaryFolder folder;
  AddressFile(folder.path())
      .publish(MessageWriter().add(std::string("127.0.0.1 ")).add(free_port()).add(std::string("old")).bytes());
  Membership membership = member_of(0, 2, FileStoreAddress{folder.path()});
  membership.join_limit_s = 0.3;
  check_names(sentence_of_joining(membership), {folder.path(), "from another job", "BUSBW_RENDEZVOUS"});
  CHECK_FALSE(std::filesystem::is_empty(folder.path()));
  membership.process = 1;
  membership.join_limit_s = 2;  // a busy machine may not try the address within 0.3 s
  check_names(sentence_of_joining(membership), {"could not reach process 0", "127.0.0.1"});
}

TEST_CASE("LaunchedJob: rejects and names a file of another user in the folder") {
  if (geteuid() != 0) return;  // only root can create a file of another user
  const TemporaryFolder folder;
  AddressFile published(folder.path());
  published.publish(MessageWriter().add(std::string("127.0.0.1 ")).add(free_port()).add(std::string("theirs")).bytes());
  CHECK(published.read());
  const std::string file = std::filesystem::directory_iterator(folder.path())->path();
  REQUIRE(chown(file.c_str(), 12345, 12345) == 0);
  const Membership membership = member_of(1, 2, FileStoreAddress{folder.path()});
  check_names(sentence_of<EnvironmentError>([&] { const LaunchedJob job(membership, silent()); }),
              {file, "written by user 12345", "runs as user 0", "BUSBW_RENDEZVOUS"});
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("LaunchedJob: names a folder without an address, or with an invalid one") {
  const TemporaryFolder folder;
  Membership membership = member_of(1, 2, FileStoreAddress{folder.path()});
  membership.join_limit_s = 0.3;
  check_names(sentence_of_joining(membership),
              {"could not reach process 0", "not written its address to " + folder.path()});
  AddressFile(folder.path()).publish(bytes_of("garbage"));
  check_names(sentence_of_joining(membership), {folder.path(), "was not written by process 0 of this version"});
  membership.store = FileStoreAddress{"/proc/no/such/folder"};
  check_names(sentence_of_joining(membership), {"/proc/no/such/folder", "BUSBW_RENDEZVOUS"});
}

TEST_CASE("LaunchedJob: a search continues without a process that is absent or withdraws") {
  for (const bool is_absent : {true, false}) {
    const int port = free_port();
    std::atomic<int> lost_count{0};
    const auto ends = run_members(3, [&](int process) {
      if (is_absent && process == 1) return;
      Membership membership = member_of(process, 3, at_loopback(port));
      membership.ranks_per_process = 2;
      membership.tolerates_losses = true;
      if (is_absent) membership.join_limit_s = kJoinLimitS;
      LaunchedJob job(membership, silent());
      if (process == 0) CHECK_FALSE(job.withdraw("cannot start: no GPU"));
      if (process == 1) {
        job.tolerate_losses(false);
        CHECK_FALSE(job.withdraw("cannot start: no GPU"));
        CHECK_FALSE(job.has_withdrawn());
        job.tolerate_losses(true);
        CHECK(job.withdraw("cannot start: no GPU"));
        CHECK(job.has_withdrawn());
        CHECK(job.aborted());  // ends the ranks of this process
        CHECK_FALSE(job.failure());
        return;
      }
      const auto count = [](const std::vector<Bytes>& messages) {
        return MessageWriter().add(std::ranges::count(messages, true, &Bytes::empty)).bytes();
      };
      CHECK(MessageReader(job.agree(MessageWriter().add(process).bytes(), count)).take<std::ptrdiff_t>() == 1);
      const auto rank_ends = run_members(2, [&](int thread) {
        const auto world = job.team(2 * process + thread);
        world->barrier();
        const auto started = world->split(1);
        CHECK(all_gather_values(*started, world->rank()) == std::vector<int>{0, 1, 4, 5});
        started->barrier();
      });
      CHECK(rank_ends == std::vector<std::string>(2));
      CHECK_FALSE(job.failure());
      if (process != 0) return;
      for (const auto& [rank, loss] : job.lost_ranks()) {
        CHECK((rank == 2 || rank == 3));
        check_names(loss.reason,
                    {"ranks 2 to 3 (process 1", is_absent ? "did not join the job within" : "cannot start: no GPU"});
        ++lost_count;
      }
    });
    CHECK(ends == kThreeWell);
    CHECK(lost_count == 2);
  }
}

TEST_CASE("LaunchedJob: sends one heartbeat per interval, however fast process 0 answers") {
  FakeServer server(FakeServer::Behavior::answers);
  Membership membership = member_of(1, 2, at_loopback(server.port()));
  membership.silence_s = 1;  // the shortest interval: one tick
  const LaunchedJob job(membership, silent());
  const int earlier = server.heartbeats();
  std::this_thread::sleep_for(std::chrono::milliseconds(5 * kTickMs));
  CHECK(server.heartbeats() - earlier <= 6);
}
