#pragma once

#include <string>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::cli {

// The file of the program that runs.
Result<std::string> running_program();
// Where the project's other programs are: beside that file as built, or where an installed one
// keeps its helpers.
std::vector<std::string> program_folders(const std::string& self);
// One of them, in the first folder that has it; empty: it is not there.
std::string program_beside(const std::string& self, const std::string& name);

// Threads of kernels that wait are not to keep others from a core. libgomp decides how they wait
// when a program is loaded, so that this one is loaded once more, unless the user has decided or it
// is done already. Called first in main().
void let_kernels_wait_asleep(char** argv);

}  // namespace ferry::cli
