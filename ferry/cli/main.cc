#include "ferry/cli/command_line.h"

int main(int argc, char** argv) { return ferry::cli::run_command_line(argc, argv); }
