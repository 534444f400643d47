# A script: writes OUTPUT, a source that names the commit of the tree SOURCE, unless it says so already. "-dirty" stands
# for sources that are not committed, "unknown" for a tree that git does not know.

set(ENV{GIT_OPTIONAL_LOCKS} 0)
execute_process(COMMAND git -C ${SOURCE} ls-files --error-unmatch CMakeLists.txt
  OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE is_foreign)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=10 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE has_no_commit)
execute_process(COMMAND git -C ${SOURCE} status --porcelain -- ferry bench cmake CMakeLists.txt
  OUTPUT_VARIABLE changes ERROR_QUIET)
if(is_foreign OR has_no_commit)
  set(commit unknown)
elseif(changes)
  string(APPEND commit -dirty)
endif()

set(text "#include \"bench/report/commit.h\"\n\nnamespace ferry::bench {\nconst char* const kCommit = \"${commit}\";\n}\n")
set(there "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} there)
endif()
if(NOT there STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
