// Stress program with random and special uses of NCCL. It tests that a library in front of NCCL returns correct results
// and never hangs. The program is linked with NCCL and does not depend on that library.
//
//   fastpath_stress --gpus N [--mode threads|single|processes|sharing] [--seconds S] [--seed K] [--plant ROUND]
//                   [--ends alike|differ] [--connect first|late] [--windows no|yes]
//   fastpath_stress --gpus N --case NAME [--mode threads|processes|sharing] [--rounds R] [--communicators C]
//                   [--ends alike|differ]
//
// With `sharing`, N processes share one GPU. NCCL 2.30 and newer support that with NCCL_MULTI_RANK_GPU_ENABLE=1.
//
// Exit codes: 0 correct, 1 wrong data, 2 usage, 3 a call failed, 4 no progress for 20 s (prints the last step of each
// rank).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cases.hpp"
#include "mix.hpp"

namespace {

int usage() {
  std::printf(
      "fastpath_stress --gpus N [--mode threads|single|processes|sharing] [--seconds S] [--seed K] [--plant ROUND]\n"
      "                [--ends alike|differ] [--connect first|late] [--windows no|yes]\n"
      "fastpath_stress --gpus N --case NAME [--mode threads|processes|sharing] [--rounds R] [--communicators C]\n"
      "                [--ends alike|differ]\ncases:");
  for (const auto& name : stress::case_names()) std::printf(" %s", name.c_str());
  std::printf("\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  stress::MixSettings mix;
  stress::CaseSettings special;
  std::string named;
  std::string ends;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return usage();
    const std::string value = argv[i + 1];
    if (flag == "--gpus")
      special.ranks = std::atoi(value.c_str());
    else if (flag == "--seconds")
      mix.seconds = std::atof(value.c_str());
    else if (flag == "--seed")
      mix.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--plant")
      mix.plant_in_round = std::strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--ends" && (value == "alike" || value == "differ"))
      ends = value;
    else if (flag == "--connect" && (value == "first" || value == "late"))
      mix.connects_first = value == "first";
    else if (flag == "--windows" && (value == "no" || value == "yes"))
      mix.has_windows = value == "yes";
    else if (flag == "--rounds")
      special.rounds = std::atoi(value.c_str());
    else if (flag == "--communicators")
      special.communicators = std::atoi(value.c_str());
    else if (flag == "--case")
      named = value;
    else if (flag == "--mode" && value == "threads")
      special.mode = stress::Mode::threads;
    else if (flag == "--mode" && value == "single")
      special.mode = stress::Mode::single;
    else if (flag == "--mode" && value == "processes")
      special.mode = stress::Mode::processes;
    else if (flag == "--mode" && value == "sharing")
      special.mode = stress::Mode::sharing;
    else
      return usage();
  }
  if (special.ranks < 2 || special.ranks > stress::kMaxRanks ||
      (!named.empty() && special.mode == stress::Mode::single))
    return usage();
  // NCCL waits for other processes when it destroys a communicator, and for all ranks when it destroys a window.
  const bool waits =
      special.mode == stress::Mode::processes || special.mode == stress::Mode::sharing || mix.has_windows;
  special.ends_differ = mix.ends_differ = ends.empty() ? !waits : ends == "differ";
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  if (!named.empty()) {
    const int code = stress::run_case(named, special);
    if (code == 2) return usage();
    std::printf("case %s: code %d, %.1f s\n", named.c_str(), code, seconds());
    return code;
  }
  stress::Shared& shared = stress::make_shared();
  const int code =
      stress::run_team(shared, special.ranks, special.mode, [&](stress::Team& team) { stress::run_mix(team, mix); });
  stress::print_mix_summary(shared, seconds());
  return code;
}
