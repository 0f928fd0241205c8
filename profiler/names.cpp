// Tables that translate NCCL's names and numbers.
#include "profiler/names.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace busbw::profiler {
namespace {

using trace::Algorithm;
using trace::Function;
using trace::Protocol;

// All tables are in the order of NCCL's numbers.
constexpr std::array<std::string_view, 15> kFunctionNames{
    "Broadcast", "Reduce",  "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send",      "Recv",
    "AlltoAll",  "Scatter", "Gather",    "AllGatherV",    "PutSignal", "Signal",   "WaitSignal"};
constexpr std::array<Function, 15> kFunctions{
    Function::broadcast, Function::reduce, Function::all_gather, Function::reduce_scatter, Function::all_reduce,
    Function::other,     Function::send,   Function::recv,       Function::alltoall,       Function::scatter,
    Function::gather,    Function::other,  Function::put_signal, Function::signal,         Function::wait_signal};
constexpr std::array<std::string_view, 12> kDatatypes{
    "ncclInt8",    "Unknown",     "ncclInt32",   "ncclUint32",   "ncclInt64",      "ncclUint64",
    "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
constexpr std::array<std::string_view, 9> kAlgorithms{"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                      "NVLS_TREE", "PAT",  "SYMMETRIC",      "COPY_ENGINE"};
constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "SIMPLE"};

template <std::size_t size>
std::uint8_t number_of(const std::array<std::string_view, size>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? trace::kUnknownByte : static_cast<std::uint8_t>(found - names.begin());
}

template <std::size_t size>
const char* name_at(const std::array<std::string_view, size>& names, std::size_t number) {
  return number < size ? names[number].data() : nullptr;
}

}  // namespace

Function function_of(std::uint8_t number) { return number < kFunctions.size() ? kFunctions[number] : Function::other; }
Function function_of(std::string_view name) { return function_of(number_of(kFunctionNames, name)); }

std::uint8_t datatype_of(std::uint8_t number) { return number < kDatatypes.size() ? number : trace::kUnknownByte; }
std::uint8_t datatype_of(std::string_view name) { return number_of(kDatatypes, name); }

Algorithm algorithm_of(std::uint8_t number) {
  return number < kAlgorithms.size() ? static_cast<Algorithm>(number) : Algorithm::unknown;
}
Algorithm algorithm_of(std::string_view name) { return algorithm_of(number_of(kAlgorithms, name)); }

Protocol protocol_of(std::uint8_t number) {
  return number < kProtocols.size() ? static_cast<Protocol>(number) : Protocol::unknown;
}
Protocol protocol_of(std::string_view name) { return protocol_of(number_of(kProtocols, name)); }

const char* name(Algorithm algorithm) noexcept { return name_at(kAlgorithms, static_cast<std::size_t>(algorithm)); }
const char* name(Protocol protocol) noexcept { return name_at(kProtocols, static_cast<std::size_t>(protocol)); }

}  // namespace busbw::profiler
