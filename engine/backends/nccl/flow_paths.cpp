// Fixes NCCL's settings for flows, and finds the NIC port that a flow of a GPU uses.
#include "backends/nccl/flow_paths.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "common/support/comma_list.hpp"

namespace busbw {
namespace {

namespace fs = std::filesystem;

/// NCCL's variables for flows, with their values.
constexpr std::pair<const char*, const char*> kSettings[]{
    // PXN would send a flow through the NIC of another GPU. Without it, a flow uses the NICs of its own two GPUs.
    {"NCCL_PXN_DISABLE", "1"},
    // Four channels per network peer reach the rate of a NIC of 400 Gb/s. By default, large communicators use one
    // (graph/paths.cc in NCCL 2.30).
    {"NCCL_NCHANNELS_PER_NET_PEER", "4"},
    // With 32 channels, flows within a node are fastest and most alike. With 16, the rates of healthy GPUs with several
    // partners differ by a factor of 1.5 (bench/results/h200-x4-flows.md).
    {"NCCL_MAX_P2P_NCHANNELS", "32"},
    // Small buffers bound the memory that NCCL keeps for connections, and speed up flows in both directions. A channel
    // to an NVLink peer takes 2.6 MiB in each direction, so 32 channels to 7 peers take 2 x 0.6 GiB. All connections
    // over a network share 32 x 16 x 128 KiB. Flows do not use the buffers of LL128.
    {"NCCL_BUFFSIZE", "2097152"},
    {"NCCL_LL128_BUFFSIZE", "65536"}};

constexpr const char* kBlockingVariable = "NCCL_COMM_BLOCKING";

/// True if a list with the syntax of NCCL_IB_HCA selects `name`. The list has prefixes of names with optional ports:
/// "mlx5_1:1,mlx5_2". A leading "=" means whole names, a leading "^" names to exclude. An empty list selects all names.
bool is_listed(std::string_view name, std::string_view list) {
  if (list.empty()) return true;
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  const bool is_exact = list.starts_with('=');
  if (is_exact) list.remove_prefix(1);
  const bool is_found = std::ranges::any_of(split_at_commas(list), [&](std::string_view entry) {
    const std::string_view listed = entry.substr(0, entry.find(':'));
    return !listed.empty() && (is_exact ? name == listed : name.starts_with(listed));
  });
  return is_found != excludes;
}

/// Names of the devices in `folder` that the list in `variable` selects, sorted by number: mlx5_2 before mlx5_10. A
/// device without hardware, such as a bond, is selected only if the list names it.
std::vector<std::string> devices_of(const fs::path& folder, const char* variable) {
  const char* const value = std::getenv(variable);
  const std::string_view list = value ? value : "";
  const bool names_devices = !list.empty() && list.front() != '^';
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    std::error_code no_device;
    const bool is_candidate = names_devices || fs::exists(entry.path() / "device", no_device);
    if (is_candidate && is_listed(name, list)) names.push_back(name);
  }
  std::ranges::sort(names, {}, [](const std::string& name) { return std::pair(name.size(), name); });
  return names;
}

/// Number of leading components that both paths share.
std::ptrdiff_t common_length(const fs::path& a, const fs::path& b) {
  return std::distance(a.begin(), std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first);
}

/// NUMA node of a PCI device. Nothing if the kernel does not know it.
std::optional<int> numa_node_of(const fs::path& device) {
  std::ifstream file(device / "numa_node");
  int node = -1;
  file >> node;
  return file && node >= 0 ? std::optional(node) : std::nullopt;
}

}  // namespace

void set_flow_environment() {
  for (const auto& [name, value] : kSettings) setenv(name, value, /*overwrite=*/0);
}

void forbid_blocking_communicators() { setenv(kBlockingVariable, "0", /*overwrite=*/1); }

std::vector<std::pair<std::string, std::string>> flow_environment() {
  std::vector<std::pair<std::string, std::string>> values;
  const auto add = [&](const char* name) {
    if (const char* const value = std::getenv(name)) values.emplace_back(name, value);
  };
  for (const auto& [name, _] : kSettings) add(name);
  add(kBlockingVariable);
  return values;
}

std::optional<NetworkPort> nearest_port(std::string bus_id, int gpu_number, const std::string& sys) {
  fs::path folder = sys + "/class/infiniband";
  std::vector<std::string> names = devices_of(folder, "NCCL_IB_HCA");
  if (names.empty()) {  // NCCL then uses TCP
    folder = sys + "/class/net";
    names = devices_of(folder, "NCCL_SOCKET_IFNAME");
  }
  if (names.empty()) return std::nullopt;
  if (bus_id.find('.') == bus_id.npos) bus_id += ".0";  // the function of the PCI device
  std::error_code error;
  const fs::path gpu = fs::canonical(sys + "/bus/pci/devices/" + bus_id, error);
  // The nearest devices share the longest path of PCI bridges with the GPU. GPUs use them in turn.
  std::vector<std::size_t> nearest;
  std::ptrdiff_t max_length = -1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::ptrdiff_t length = common_length(gpu, fs::canonical(folder / names[i] / "device", error));
    if (length > max_length) nearest.clear();
    max_length = std::max(max_length, length);
    if (length == max_length) nearest.push_back(i);
  }
  const std::size_t position = nearest[static_cast<std::size_t>(gpu_number) % nearest.size()];
  return NetworkPort{names[position], static_cast<int>(position), numa_node_of(folder / names[position] / "device"),
                     numa_node_of(gpu)};
}

}  // namespace busbw
