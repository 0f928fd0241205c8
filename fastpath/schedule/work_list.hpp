#pragma once
// The work (schedule.hpp) of each collective and method. The launch of an operation selects its kernel from these
// lists, and the preload functions load the kernels of all entries.
#include "fastpath/schedule/collective.hpp"
#include "fastpath/schedule/direct.hpp"
#include "fastpath/schedule/work.hpp"

namespace busbw::fastpath {

/// The work type of one collective and method.
template <Collective kCollectiveOfEntry, Method kMethodOfEntry, class WorkOfEntry>
struct WorkEntry {
  static constexpr Collective kCollective = kCollectiveOfEntry;
  static constexpr Method kMethod = kMethodOfEntry;
  using Work = WorkOfEntry;
};

/// A list of WorkEntry types.
template <class... Entries>
struct WorkList {};

/// Works that only move data.
using MovingWorks = WorkList<WorkEntry<Collective::all_gather, Method::exchange, AllGather>,
                             WorkEntry<Collective::all_gather, Method::direct, DirectCopy>,
                             WorkEntry<Collective::alltoall, Method::exchange, AllToAll>,
                             WorkEntry<Collective::broadcast, Method::exchange, BroadcastOneShot>,
                             WorkEntry<Collective::broadcast, Method::two_shot, BroadcastTwoShot>>;

/// Works that reduce, for one reduction type.
template <class Reduction>
using ReducingWorks = WorkList<WorkEntry<Collective::all_reduce, Method::exchange, AllReduceOneShot<Reduction>>,
                               WorkEntry<Collective::all_reduce, Method::two_shot, AllReduceTwoShot<Reduction>>,
                               WorkEntry<Collective::all_reduce, Method::direct, DirectReduction<Reduction>>,
                               WorkEntry<Collective::reduce_scatter, Method::exchange, ReduceScatter<Reduction>>,
                               WorkEntry<Collective::reduce_scatter, Method::direct, DirectReduction<Reduction>>>;

/// Calls `visit` with the entry for the collective and the method. Returns false if the list has none.
template <class... Entries, class Visit>
bool visit_work(WorkList<Entries...>, Collective collective, Method method, const Visit& visit) {
  const auto visit_if_wanted = [&](auto entry) {
    const bool is_wanted = entry.kCollective == collective && entry.kMethod == method;
    if (is_wanted) visit(entry);
    return is_wanted;
  };
  return (visit_if_wanted(Entries{}) || ...);
}

}  // namespace busbw::fastpath
