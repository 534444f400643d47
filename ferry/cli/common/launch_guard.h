#pragma once

#include "ferry/base/clock.h"
#include "ferry/base/error.h"

namespace ferry::cli {

// For commands that start processes; called first, while there is one thread. Returns in a child of
// the calling process, which goes on with the command. The calling process, whose number the user
// knows, stays to pass SIGINT, SIGTERM, SIGHUP and SIGQUIT on, and ends with the child's status.
//
// When the calling process is killed, the child gets SIGTERM and ends the command in an orderly
// way. When the child is killed or fails, the calling process ends what is left of the processes
// that the command has started, and of those that these have started. Only if both are killed at
// once, programs that the command's own processes have started may go on.
Status guard_launch();

// The calling process is to be killed when its parent ends, `parent` as it was before fork():
// called in the new process, which ends at once if its parent has ended already. Safe after fork()
// from a process with threads; a program that is executed afterwards keeps it.
void die_with_parent(int parent, int signal);

// Ends all children of this process, and those that become its children when their parents end (see
// PR_SET_CHILD_SUBREAPER): SIGTERM, and SIGKILL after `grace`. Takes the exit status of all of
// them.
void end_children(Nanos grace);

}  // namespace ferry::cli
