#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace limits {

// The value after `name`, the first choice where it is absent. Ends the program with a sentence
// when it is none of the choices.
inline std::string option(int argc, char** argv, const std::string& name,
                          const std::vector<std::string>& choices) {
  std::string value = choices.front();
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) value = argv[i + 1];
  }
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
    std::printf("error %s does not take %s\n", name.c_str(), value.c_str());
    std::exit(2);
  }
  return value;
}

}  // namespace limits
