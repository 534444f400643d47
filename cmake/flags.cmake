# Compiler launcher, warnings and sanitizers, for every target of the project.

find_program(CCACHE ccache)
if(CCACHE)
  # Clones of the repository share what was compiled: paths below the source folder are relative to the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

add_compile_options(-Wall -Wextra "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Wold-style-cast>" -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety)
else()
  # g++ 12 sees overflows inside fmt that there are not.
  add_compile_options(-Wshadow=local -Wno-stringop-overflow)
endif()

if(CMAKE_UNITY_BUILD)
  # Several sources as one, for speed. What that makes look wrong is right in the builds without it.
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
  add_compile_options(-Wno-unused-function $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

if(FERRY_SANITIZE)
  add_compile_options(-fsanitize=${FERRY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FERRY_SANITIZE})
endif()
if(FERRY_SANITIZE MATCHES "thread")
  # g++ warns that TSan does not model fences. The library orders shared memory with them on
  # purpose; what that hides from TSan is covered by tests that compare stamped data.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
endif()

if(FERRY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "FERRY_FUZZ needs clang, which has libFuzzer: use the preset clang-tsa")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
