#include "rendezvous/launched_job.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "common/os/provenance.hpp"
#include "support_errors.hpp"
#include "support_processes.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

const std::vector<std::string> kAllWell(3);

// Limits that these tests wait for, and that must hold whole handshakes on a machine that has other things to do.
constexpr double kShortLimitS = 3;   // several threads have to come together
constexpr double kAnswerLimitS = 2;  // one that listens has to answer

/// The only rank of a process waits in vain, until the job is aborted.
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

/// The first of two processes, whose other one is a stand-in.
std::string failure_beside(double silence_s, const std::function<void(StandIn&)>& does) {
  const int port = free_port();
  std::string sentence;
  std::thread other([&] {
    StandIn it(port, 1, 2);
    does(it);
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

/// The second of two processes, whose first one is a stand-in.
std::string failure_under(StandInServer::Does does, double silence_s) {
  StandInServer server(StandInServer::Does::answers);
  Membership membership = member_of(1, 2, at_loopback(server.port()));
  membership.silence_s = silence_s;
  LaunchedJob job(membership, silent());
  const auto team = job.team(1);
  try {
    team->enter(Phase::timing);
    server.now(does);
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

std::string sentence_of_joining(const Membership& membership, const JoinCallbacks& callbacks = silent()) {
  return sentence_of<Error>([&] { const LaunchedJob job(membership, callbacks); });
}

}  // namespace

TEST_CASE("LaunchedJob: processes with several ranks each meet and are one team") {
  const int port = free_port();
  std::array<std::atomic<int>, 6> sums{};
  CHECK(run_job_of(
            3, at_loopback(port),
            [&](LaunchedJob& job, int process) {
              CHECK(job.ranks() == 6);
              CHECK(job.watches_all_ranks() == (process == 0));
              CHECK(job.store_reached_at() == "127.0.0.1:" + std::to_string(port));
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
            [](Membership& membership) { membership.ranks_per_process = 2; }) == kAllWell);
  for (const auto& sum : sums) CHECK(sum == 45);
}

TEST_CASE("LaunchedJob: one process is a job, too") {
  CHECK(run_job_of(1, at_loopback(free_port()), [](LaunchedJob& job, int) {
          const auto team = job.team(0);
          team->barrier();
          CHECK(team->gather({}).size() == 1);
          CHECK(job.with_rank_name(0, "it is so") == "rank 0 on " + host_name() + ": it is so");
        }) == std::vector<std::string>(1));
}

TEST_CASE("LaunchedJob: the first process knows how far all are, and each is named with its host") {
  const int port = free_port();
  std::atomic<bool> seen{false};
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
            seen = true;
          }
          while (!seen) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          team->barrier();
        }) == std::vector<std::string>(2));
}

TEST_CASE("LaunchedJob: 256 processes meet") {
  CHECK(run_job_of(256, at_loopback(free_port()), [](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          const auto all = team->gather(MessageWriter().add(process).bytes());
          for (std::size_t i = 0; i < all.size(); ++i) CHECK(MessageReader(all[i]).take<int>() == static_cast<int>(i));
          CHECK(all.size() == (process == 0 ? 256 : 0));
          team->barrier();
        }) == std::vector<std::string>(256));
}

TEST_CASE("LaunchedJob: a decision of the first process is everybody's; an error in it ends the job for all") {
  CHECK(run_job_of(3, at_loopback(free_port()), [](LaunchedJob& job, int process) {
          const auto decide = [](const std::vector<Bytes>& words) {
            int sum = 0;
            for (const Bytes& one : words) sum += MessageReader(one).take<int>();
            return MessageWriter().add(sum).bytes();
          };
          CHECK(MessageReader(job.agree(MessageWriter().add(process + 1).bytes(), decide)).take<int>() == 6);
        }) == kAllWell);
  const auto refuse = [](const std::vector<Bytes>&) -> Bytes { throw UsageError("they differ; start them alike"); };
  CHECK(run_job_of(3, at_loopback(free_port()), [&](LaunchedJob& job, int) { job.agree({}, refuse); }) ==
        std::vector<std::string>(3, "2: they differ; start them alike"));
}

// ---- ends -----------------------------------------------------------------------------------------------------------

TEST_CASE("LaunchedJob: an abort in any process ends all waits, with its sentence and exit code") {
  for (int who = 0; who < 3; ++who) {
    CAPTURE(who);
    CHECK(run_job_of(3, at_loopback(free_port()), [who](LaunchedJob& job, int process) {
            const auto team = job.team(process);
            team->barrier();
            if (process == who) job.abort(ExitCode::wrong_data, "process " + std::to_string(who) + " gave up");
            for (;;) team->barrier();
          }) == std::vector<std::string>(3, "1: process " + std::to_string(who) + " gave up"));
  }
}

TEST_CASE("LaunchedJob: processes that abort at once all tell one reason, with one exit code") {
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

TEST_CASE("LaunchedJob: a process that dies is named with its host and phase, in every phase") {
  for (const Phase phase : kPhases) {
    CAPTURE(name(phase));
    const std::string sentence = failure_beside(30, [&](StandIn& it) {
      it.tell(phase);
      it.die();
    });
    check_names(sentence, {"rank 1 (process 1, pid 4711 on elsewhere) was lost in phase " + std::string(name(phase)),
                           "its connection closed"});
  }
}

TEST_CASE("LaunchedJob: a process that falls silent is named with its phase") {
  std::atomic<bool> is_over{false};
  const int port = free_port();
  std::thread other([&] {
    StandIn it(port, 1, 2);
    it.tell(Phase::warmup);
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  Membership membership = member_of(0, 2, at_loopback(port));
  membership.silence_s = kShortLimitS;
  {
    LaunchedJob job(membership, silent());
    check_names(failure_of(job, 0), {"rank 1 (process 1, pid 4711 on elsewhere) was lost in phase warmup",
                                     "nothing was heard from it for 3 s", "stopped", "network"});
    is_over = true;
  }
  other.join();
}

TEST_CASE("LaunchedJob: the first process's end is seen by the others, whatever it looks like") {
  const std::string who = "rank 0 (process 0 on far) was lost in phase timing: ";
  check_names(failure_under(StandInServer::Does::closes, 30), {who + "its connection closed", "its own output"});
  check_names(failure_under(StandInServer::Does::nothing, 1), {who + "nothing was heard from it for 1 s", "stopped"});
  check_names(failure_under(StandInServer::Does::talks_nonsense, 30),
              {"lost its connection to process 0 on far in phase timing: ", "cannot be understood"});
}

TEST_CASE("LaunchedJob: a process that leaves is missed by nobody") {
  CHECK(run_job_of(3, at_loopback(free_port()), [](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          team->barrier();
          if (process == 2) return;
          if (process == 1) job.leave();
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          CHECK_FALSE(job.failure());
        }) == kAllWell);
}

// ---- coming together ------------------------------------------------------------------------------------------------

TEST_CASE("LaunchedJob: processes that do not come are named in time, to all that did") {
  const int port = free_port();
  const auto ends = run_members(3, [&](int process) {
    if (process == 1) return;
    Membership membership = member_of(process, 3, at_loopback(port));
    membership.join_limit_s = kShortLimitS;
    const LaunchedJob job(membership, silent());
  });
  for (const std::size_t process : {0U, 2U})
    check_names(ends[process], {"4: 1 of 3 processes has not come: 1 in 3 s", "firewall", "BUSBW_JOIN_TIMEOUT_S",
                                "which listens at 127.0.0.1:" + std::to_string(port)});
}

TEST_CASE("LaunchedJob: a process that came and then says nothing of itself is waited for no longer than the limit") {
  const int port = free_port();
  const auto ends = run_members(2, [&](int process) {
    Membership membership = member_of(process, 2, at_loopback(port));
    membership.step_limit_s = kShortLimitS;
    LaunchedJob job(membership, silent());
    if (process == 0) job.agree({}, [](const std::vector<Bytes>&) { return Bytes(); });
    while (!job.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    throw Error(job.failure()->exit, job.failure()->message);
  });
  for (const std::string& end : ends) check_names(end, {"4: ", "waited 3 s for gather", "from rank 1"});
}

TEST_CASE("LaunchedJob: a first process that does not come is named, with what was tried") {
  Membership membership = member_of(3, 4, at_loopback(free_port()));
  membership.join_limit_s = 0.3;
  check_names(sentence_of_joining(membership), {"process 3 on " + host_name() + " could not reach process 0 in 0.3 s",
                                                "Connection refused", "BUSBW_RENDEZVOUS"});
  membership.store = TcpStoreAddress{{"no-such-host.invalid", "127.0.0.1"}, free_port()};
  check_names(sentence_of_joining(membership), {"could not reach process 0"});
  membership.store = TcpStoreAddress{{"localhost"}, free_port()};
  check_names(sentence_of_joining(membership), {"(localhost at "});
}

TEST_CASE("LaunchedJob: something else that listens at the port is no store") {
  StandInServer other(StandInServer::Does::welcomes_nobody);
  Membership membership = member_of(1, 2, at_loopback(other.port()));
  membership.join_limit_s = kAnswerLimitS;
  check_names(sentence_of_joining(membership), {"could not reach process 0", "is no store of this job"});
}

TEST_CASE("LaunchedJob: process 0 of another version is named with both versions") {
  StandInServer other(StandInServer::Does::speaks_version_9);
  Membership membership = member_of(1, 2, at_loopback(other.port()));
  membership.join_limit_s = kAnswerLimitS;
  check_names(sentence_of<EnvironmentError>([&] { const LaunchedJob job(membership, silent()); }),
              {"process 1 was turned away by 127.0.0.1:", "it speaks version 9", "this process version 2",
               "the same busbw everywhere"});
}

TEST_CASE("LaunchedJob: process 0 names one of another version, and goes on waiting for its own") {
  const int port = free_port();
  Membership membership = member_of(0, 2, at_loopback(port));
  membership.join_limit_s = 3;
  std::string said;
  const auto ends = run_members(2, [&](int i) {
    if (i == 0) {
      const LaunchedJob job(membership, {[&](const std::string& sentence) { said += sentence + "\n"; }, [] {}});
    } else {
      Stranger stranger(loopback(port));
      stranger.say(FrameKind::hello, bytes_of("bswbrol9, and what that may say"));
      CHECK(stranger.is_turned_away());
    }
  });
  const std::string sentence =
      "one at 127.0.0.1 speaks version 9 of busbw's protocol, process 0 version 2; install the same busbw everywhere";
  check_names(said, {"1 of 2 processes has not come: 1; " + sentence});
  check_names(ends[0], {"4: 1 of 2 processes has not come: 1 in 3 s", "1 connection was turned away", sentence});
}

TEST_CASE("LaunchedJob: a dead address among several costs nothing but a try") {
  const int port = free_port();
  CHECK(run_job_of(
            2, TcpStoreAddress{{"no-such-host.invalid", "127.0.0.9", "127.0.0.1"}, port},
            [&](LaunchedJob& job, int) { job.team(0); },
            [&](Membership& membership) {
              if (membership.process == 0) membership.store = at_loopback(port);
            }) == std::vector<std::string>(2));
}

TEST_CASE("LaunchedJob: another token is turned away, and the job that is there goes on") {
  const int port = free_port();
  CHECK(run_job_of(2, at_loopback(port), [&](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          team->barrier();
          if (process == 0) {
            Membership other = member_of(1, 2, at_loopback(port));
            other.token = "another";
            other.join_limit_s = kAnswerLimitS;
            check_names(sentence_of<EnvironmentError>([&] { const LaunchedJob it(other, silent()); }),
                        {"process 1 was turned away by 127.0.0.1", "the token differs", "BUSBW_TOKEN"});
            // Another job's first process finds the port taken.
            Membership first = member_of(0, 1, at_loopback(port));
            first.join_limit_s = 0.3;
            check_names(sentence_of_joining(first),
                        {"cannot listen at 127.0.0.1:" + std::to_string(port), "BUSBW_RENDEZVOUS"});
          }
          team->barrier();
          CHECK_FALSE(job.failure());
        }) == std::vector<std::string>(2));
}

TEST_CASE("LaunchedJob: processes that were told of different jobs end at once, each with the reason") {
  const int port = free_port();
  const auto ends = run_members(
      2, [&](int process) { const LaunchedJob job(member_of(process, 2 + process, at_loopback(port)), silent()); });
  check_names(ends[0], {"3: process 1 on ", "told of 3 processes, process 0 of 2", "BUSBW_SIZE"});
  check_names(ends[1], {"3: process 1 was turned away by 127.0.0.1:", "told of 3 processes, process 0 of 2"});
  const int other_port = free_port();
  const auto layouts = run_members(2, [&](int process) {
    Membership membership = member_of(process, 2, at_loopback(other_port));
    membership.ranks_per_process = 1 + process;
    const LaunchedJob job(membership, silent());
  });
  for (const std::string& end : layouts) check_names(end, {"2: ", "process 1 on ", "2 ranks, process 0 has 1"});
}

TEST_CASE("LaunchedJob: who comes when the job has already failed hears why, and does not look for it in vain") {
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
    check_names(ends[i], {"3: process 1 on ", "told of 4 processes, process 0 of 3"});
}

TEST_CASE("LaunchedJob: who has another token is named at once, and the job waits for its own") {
  const int port = free_port();
  std::vector<std::string> said;
  std::atomic<bool> is_named{false}, has_left{false};
  const auto ends = run_members(3, [&](int i) {
    if (i == 0) {
      const LaunchedJob job(member_of(0, 2, at_loopback(port)),
                            {[&](const std::string& sentence) {
                               said.push_back(sentence);
                               is_named = is_named || sentence.find("another token") != sentence.npos;
                             },
                             [] {}});
      return;
    }
    Membership membership = member_of(1, 2, at_loopback(port));
    if (i == 2) {  // a stranger that says it is process 1
      membership.token = "another";
      membership.join_limit_s = kAnswerLimitS;
      try {
        const LaunchedJob job(membership, silent());
      } catch (const Error&) {
        has_left = true;
        throw;
      }
    }
    while (!is_named || !has_left) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const LaunchedJob job(membership, silent());
  });
  CHECK(ends[0].empty());
  CHECK(ends[1].empty());
  check_names(ends[2], {"3: ", "the token differs"});
  check_names(said.front(), {"1 of 2 processes has not come: 1", "process 1 on ", "another token"});
}

TEST_CASE("LaunchedJob: two processes of one number end at once, each with the reason") {
  const int port = free_port();
  const auto ends =
      run_members(3, [&](int i) { const LaunchedJob job(member_of(std::min(i, 1), 3, at_loopback(port)), silent()); });
  for (const std::string& end : ends) check_names(end, {"3: ", "rank 1 (process 1, ", "here already", "BUSBW_RANK"});
}

TEST_CASE("LaunchedJob: an interrupt while processes come together ends all of them") {
  for (int who = 0; who < 3; ++who) {
    CAPTURE(who);
    const int port = free_port();
    std::array<std::atomic<int>, 3> looks{};
    const int other = who == 0 ? 2 : 0;
    const auto ends = run_members(3, [&](int process) {
      if (process != who && process != other) return;  // somebody is missing, or all would go on
      // The first process listens before it looks a second time; 8 looks later others wait for those that are missing.
      while (process != 0 && looks[0] < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const LaunchedJob job(member_of(process, 3, at_loopback(port)),
                            {[](const std::string&) {},
                             [&] {
                               const auto mine = static_cast<std::size_t>(process);
                               const auto theirs = static_cast<std::size_t>(other);
                               ++looks[mine];
                               if (process == who && looks[mine] >= 8 && looks[theirs] >= 8)
                                 throw Error(ExitCode::interrupted, "interrupted");
                             }});
    });
    CHECK(ends[static_cast<std::size_t>(who)] == "130: interrupted");
    CHECK(ends[static_cast<std::size_t>(other)] == "130: interrupted");
  }
}

TEST_CASE("LaunchedJob: an interrupt ends the wait for something that accepts and says nothing") {
  StandInServer other(StandInServer::Does::welcomes_nobody);
  int looks = 0;
  const JoinCallbacks callbacks{[](const std::string&) {},
                                [&] {
                                  if (++looks == 4) throw Error(ExitCode::interrupted, "interrupted");
                                }};
  CHECK(sentence_of_joining(member_of(1, 2, at_loopback(other.port())), callbacks) == "interrupted");
  CHECK(looks == 4);
}

// ---- by way of a folder ---------------------------------------------------------------------------------------------

TEST_CASE("LaunchedJob: processes find each other by a folder, without a token, and leave it empty") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store";
  for (int round = 0; round < 2; ++round) {
    CHECK(run_job_of(
              3, FileStoreAddress{path}, [](LaunchedJob& job, int process) { job.team(process)->barrier(); },
              [](Membership& membership) { membership.token.clear(); }) == kAllWell);
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("LaunchedJob: a token that was given is not written to the folder, and none there takes its place") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store";
  CHECK(run_job_of(2, FileStoreAddress{path}, [&](LaunchedJob& job, int process) {
          const auto team = job.team(process);
          team->barrier();
          const auto told = FileStore(path, 1, [] {}, false).try_get("address of process 0");
          REQUIRE(told);
          CHECK(text_of(*told).find(kToken) == std::string::npos);
          team->barrier();
        }) == std::vector<std::string>(2));
  const auto ends = run_members(2, [&](int process) {
    Membership membership = member_of(process, 2, FileStoreAddress{path});
    membership.join_limit_s = kShortLimitS;
    if (process == 0) membership.token.clear();
    const LaunchedJob job(membership, silent());
  });
  check_names(ends[1], {"3: process 1 was turned away by ", "the token differs"});
}

TEST_CASE("LaunchedJob: a folder that is left from another job is named, and not touched") {
  const TemporaryFolder folder;
  FileStore(folder.path(), 1)
      .set("address of process 0",
           MessageWriter().add(std::string("127.0.0.1 ")).add(free_port()).add(std::string("old")).bytes());
  Membership membership = member_of(0, 2, FileStoreAddress{folder.path()});
  membership.join_limit_s = 0.3;
  check_names(sentence_of_joining(membership), {folder.path(), "from another job", "BUSBW_RENDEZVOUS"});
  CHECK_FALSE(std::filesystem::is_empty(folder.path()));
  membership.process = 1;
  check_names(sentence_of_joining(membership), {"could not reach process 0", "127.0.0.1"});
}

TEST_CASE("LaunchedJob: what another user wrote to the folder is not believed, and named") {
  if (geteuid() != 0) return;  // who is not root cannot make a file of another user
  const TemporaryFolder folder;
  FileStore store(folder.path(), 1);
  store.set("address of process 0",
            MessageWriter().add(std::string("127.0.0.1 ")).add(free_port()).add(std::string("theirs")).bytes());
  CHECK(store.try_get("address of process 0"));
  const std::string file = std::filesystem::directory_iterator(folder.path())->path();
  REQUIRE(chown(file.c_str(), 12345, 12345) == 0);
  const Membership membership = member_of(1, 2, FileStoreAddress{folder.path()});
  check_names(sentence_of<EnvironmentError>([&] { const LaunchedJob job(membership, silent()); }),
              {file, "written by user 12345", "runs as user 0", "BUSBW_RENDEZVOUS"});
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("LaunchedJob: a folder in which nobody, or somebody else, writes is named") {
  const TemporaryFolder folder;
  Membership membership = member_of(1, 2, FileStoreAddress{folder.path()});
  membership.join_limit_s = 0.3;
  check_names(sentence_of_joining(membership),
              {"could not reach process 0", "not written its address to " + folder.path()});
  FileStore(folder.path(), 1).set("address of process 0", bytes_of("garbage"));
  check_names(sentence_of_joining(membership), {folder.path(), "is not what process 0 of this version writes"});
  membership.store = FileStoreAddress{"/proc/no/such/folder"};
  check_names(sentence_of_joining(membership), {"/proc/no/such/folder", "BUSBW_RENDEZVOUS"});
}
