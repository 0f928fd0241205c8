#pragma once
// PMIx, the interface of Open MPI and PRRTE to their key-value store. The PMIx library is opened at run time. Slurm has
// PMIx too, but a job of Slurm finds process 0 by Slurm's variables.
#include <string>

#include "rendezvous/launcher_store/shared_text.hpp"

namespace busbw {

/// Like share_text. The library is the one that the launcher's daemon has loaded, or the system's. BUSBW_PMIX names
/// another one.
std::string share_text_by_pmix(int process, const std::string& text, const StoreWait& wait);

}  // namespace busbw
