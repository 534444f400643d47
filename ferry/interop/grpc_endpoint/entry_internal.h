#pragma once

#include "ferry/interop/grpc_endpoint/hub_internal.h"

namespace ferry::interop {

// The process's one hub, made at the first call and never destroyed, since threads of the program
// may be in it until the process ends. Only for code that is called without a context of ours: what
// the dynamic linker calls (plugin.cc), and the C functions that the plug-in replaces
// (replaced_functions.cc). All other code is handed what it needs.
Hub& process_hub();

}  // namespace ferry::interop
