#pragma once
// NCCL's names of functions, element types, algorithms and protocols, as numbers of a trace. Version 1 of the interface
// has NCCL's internal numbers instead of names. An unknown name or number becomes Function::other, trace::kUnknownByte,
// Algorithm::unknown or Protocol::unknown.
#include <cstdint>
#include <string_view>

#include "common/trace/format.hpp"

namespace busbw::profiler {

/// Such as "AllReduce".
trace::Function function_of(std::string_view name);
trace::Function function_of(std::uint8_t number);
/// Such as "ncclFloat16". The name "Unknown" becomes uint8: NCCL passes it to profilers for ncclUint8.
std::uint8_t datatype_of(std::string_view name);
std::uint8_t datatype_of(std::uint8_t number);
/// Such as "RING".
trace::Algorithm algorithm_of(std::string_view name);
trace::Algorithm algorithm_of(std::uint8_t number);
/// Such as "LL128".
trace::Protocol protocol_of(std::string_view name);
trace::Protocol protocol_of(std::uint8_t number);
/// Name such as "RING", valid forever. Null if unknown.
const char* name(trace::Algorithm) noexcept;
const char* name(trace::Protocol) noexcept;

}  // namespace busbw::profiler
