#pragma once

#include <functional>
#include <string>

#include "ferry/mail/wait_spin.h"

namespace ferry::train {

// What is known of the path between processes of this machine by this provider ("auto": the one
// that is chosen for them). If nothing is kept, two processes are started that measure it and keep
// the result, for about half a second; they are gone after three seconds whatever happens, and
// sooner if `stop` says so. For whoever starts a job, before it starts the rest: the caller has no
// device open and no threads that matter to a fork. kDefault: FERRY_TUNING is off, somebody else on
// this machine measures, or it did not work, which a line in the log says.
mail::SpinInUse measure_own_host(const std::string& provider,
                                 const std::function<bool()>& stop = {});

}  // namespace ferry::train
