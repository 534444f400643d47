# Libraries: one that moves tensors; one that computes with plain arrays and saves them; the parameter server on
# these two; one with graphs and kernels, which needs oneDNN; one that runs jobs, and has gRPC where it is found. A room is a
# folder below ferry/; its files are picked up by name: x.h and x.cc belong to the room's library,
# x_test.cc to its unit tests, x_fuzz.cc to the fuzz targets.

set(FERRY_LIBRARY_ROOMS base bootstrap memory tensor fabric landing transfer mail)
set(FERRY_MATH_ROOMS math storage)
set(FERRY_PS_ROOMS ps)
set(FERRY_TRAIN_ROOMS graph ops runtime models)
set(FERRY_JOB_ROOMS train)

# Where ps-lite's headers are installed.
set(FERRY_PSLITE_FOLDER tensorferry-pslite)

# What the library uses and its users need not see. Tests and private headers do.
set(FERRY_PRIVATE_LIBRARIES OpenSSL::Crypto PkgConfig::VERBS)

# The files of the rooms named after the suffix.
function(ferry_room_files out suffix)
  set(files)
  foreach(room ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/${room}/*${suffix})
    list(APPEND files ${found})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# Public headers of a library: those directly in its rooms, less x_internal.h. What lies deeper, such as a
# provider, is the room's own. Programs find the library as Tensorferry::<name>.
function(ferry_public target name)
  set(headers)
  foreach(room ${ARGN})
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/${room}/*.h)
    list(APPEND headers ${found})
  endforeach()
  list(FILTER headers EXCLUDE REGEX "_internal\\.h$")
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  add_library(Tensorferry::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY FERRY_PUBLIC_TARGETS ${target})
endfunction()

function(ferry_library)
  ferry_room_files(sources .cc ${FERRY_LIBRARY_ROOMS})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  add_library(tensorferry STATIC ${sources})
  ferry_public(tensorferry tensorferry . ${FERRY_LIBRARY_ROOMS})
  target_compile_features(tensorferry PUBLIC cxx_std_20)
  target_compile_definitions(tensorferry PUBLIC FMT_SHARED SPDLOG_SHARED_LIB SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
  target_link_libraries(tensorferry PUBLIC fmt::fmt spdlog::spdlog tl::expected Threads::Threads
    PRIVATE ${FERRY_PRIVATE_LIBRARIES} $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
endfunction()

# For loops over arrays. Rounding is the same whatever the instruction set; neither errno nor floating-point traps
# are looked at, which is what keeps a loop with a square root or a choice from becoming vector code.
function(ferry_loop_flags library)
  target_compile_options(${library} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math)
  # Where clang does not optimize, it need not say that it does not.
  target_compile_options(${library} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
  if(NOT FERRY_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    # At -O3, g++ 12 takes a member of graph/replicate.cc for uninitialized. Builds at other levels keep the warning.
    target_compile_options(${library} PRIVATE -O3 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()

function(ferry_math_library)
  ferry_room_files(sources .cc ${FERRY_MATH_ROOMS})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  add_library(tensorferry_math STATIC ${sources})
  ferry_public(tensorferry_math math ${FERRY_MATH_ROOMS})
  target_link_libraries(tensorferry_math PUBLIC tensorferry PRIVATE OpenSSL::Crypto ZLIB::ZLIB)
  ferry_loop_flags(tensorferry_math)
endfunction()

# The parameter server, and how launched programs find their job.
function(ferry_ps_library)
  ferry_room_files(sources .cc ${FERRY_PS_ROOMS})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  add_library(tensorferry_ps STATIC ${sources} ${PROJECT_SOURCE_DIR}/ferry/interop/launched.cc)
  ferry_public(tensorferry_ps ps ${FERRY_PS_ROOMS} interop)
  target_link_libraries(tensorferry_ps PUBLIC tensorferry_math
    PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  ferry_loop_flags(tensorferry_ps)
endfunction()

function(ferry_kvstore_library)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/kvstore/*.cc)
  add_library(tensorferry_kvstore STATIC ${sources})
  ferry_public(tensorferry_kvstore kvstore interop/kvstore)
  target_link_libraries(tensorferry_kvstore PUBLIC tensorferry_ps)
endfunction()

# The C interface: a shared library that shows nothing else, and runs where libibverbs is not.
function(ferry_c_library)
  add_library(ferry_verbs_at_run_time OBJECT ${PROJECT_SOURCE_DIR}/ferry/interop/c/verbs_at_run_time.c)
  target_include_directories(ferry_verbs_at_run_time PRIVATE ${VERBS_INCLUDE_DIRS})
  target_compile_options(ferry_verbs_at_run_time PRIVATE -fvisibility=hidden)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/c/*.cc)
  add_library(tensorferry_c SHARED ${sources} $<TARGET_OBJECTS:ferry_verbs_at_run_time>)
  ferry_public(tensorferry_c c interop/c)
  target_compile_definitions(tensorferry_c PRIVATE FERRY_VERSION="${PROJECT_VERSION}")
  target_include_directories(tensorferry_c PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tensorferry_c PRIVATE tensorferry_kvstore tensorferry_ps ${FERRY_PRIVATE_LIBRARIES}
    nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
  # What verbs_at_run_time.c defines is not looked for in libibverbs, which so is not needed.
  target_link_options(tensorferry_c PRIVATE -Wl,--as-needed -Wl,--exclude-libs,ALL
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/ferry/interop/c/exports.map)
  if(NOT FERRY_SANITIZE) # whose runtime is in the program
    target_link_options(tensorferry_c PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(tensorferry_c PROPERTIES OUTPUT_NAME tensorferry SOVERSION 0 VERSION ${PROJECT_VERSION}
    CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/c/exports.map)
endfunction()

# ps-lite's interface. Its headers are <ps/...> to programs.
function(ferry_pslite_library)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/pslite/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(tensorferry_pslite STATIC ${sources})
  ferry_public(tensorferry_pslite pslite)
  target_include_directories(tensorferry_pslite SYSTEM PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/ferry/interop/pslite/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/${FERRY_PSLITE_FOLDER}>)
  target_link_libraries(tensorferry_pslite PUBLIC tensorferry_ps)
endfunction()

function(ferry_train_library)
  ferry_room_files(sources .cc ${FERRY_TRAIN_ROOMS})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  add_library(tensorferry_train STATIC ${sources})
  ferry_public(tensorferry_train train ${FERRY_TRAIN_ROOMS})
  target_link_libraries(tensorferry_train PUBLIC tensorferry_math
    PRIVATE dnnl gomp OpenSSL::Crypto ZLIB::ZLIB $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  ferry_loop_flags(tensorferry_train)
endfunction()

# The runtime over gRPC, a library of its own: its headers are not written for our warnings.
function(ferry_grpc_library)
  if(NOT TARGET gRPC::grpc++)
    message(STATUS "gRPC was not found: jobs have no transport grpc")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/grpc/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(tensorferry_grpc STATIC ${sources})
  ferry_public(tensorferry_grpc grpc)
  target_link_libraries(tensorferry_grpc PUBLIC tensorferry_train PRIVATE gRPC::grpc++)
  target_compile_options(tensorferry_grpc PRIVATE -Wno-unused-parameter)
  if(TARGET ferry_grpc_static)
    target_compile_definitions(tensorferry_grpc PRIVATE FERRY_HAS_GRPC_ENDPOINT)
    # Whole: it registers itself before main(), and replaces functions.
    target_link_libraries(tensorferry_grpc INTERFACE
      $<BUILD_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,ferry_grpc_static>>
      $<INSTALL_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,Tensorferry::grpc_endpoint>>)
  endif()
endfunction()

# Tensors as messages of gRPC's; needs neither the plug-in nor protobuf.
function(ferry_grpc_tensor_library)
  if(NOT TARGET gRPC::grpc++)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/grpc_tensor/*.cc)
  add_library(tensorferry_grpc_tensor STATIC ${sources})
  ferry_public(tensorferry_grpc_tensor grpc_tensor interop/grpc_tensor)
  target_link_libraries(tensorferry_grpc_tensor PUBLIC tensorferry gRPC::grpc++)
  target_compile_options(tensorferry_grpc_tensor PRIVATE -Wno-unused-parameter)
endfunction()

function(ferry_fuse_library)
  if(NOT TARGET PkgConfig::FUSE)
    message(STATUS "libfuse3 was not found: there is no `ferry mount`")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/fuse/*.cc)
  list(FILTER sources EXCLUDE REGEX "(_test|/program)\\.cc$")
  add_library(tensorferry_fuse STATIC ${sources})
  target_link_libraries(tensorferry_fuse PUBLIC tensorferry_ps PRIVATE PkgConfig::FUSE nlohmann_json::nlohmann_json)
  add_executable(ferry-mount ${PROJECT_SOURCE_DIR}/ferry/interop/fuse/program.cc)
  target_link_libraries(ferry-mount PRIVATE tensorferry_fuse)
  install(TARGETS ferry-mount DESTINATION libexec/tensorferry)
endfunction()

# The plug-in for programs that use gRPC: a shared library to preload or to link first, and the same as an
# object to link. Debian's gRPC is built without NDEBUG, which its layouts depend on; it is not linked to, so
# that programs without gRPC can be run with it.
function(ferry_grpc_plugin)
  if(NOT TARGET gRPC::grpc++ OR NOT gRPC_VERSION VERSION_EQUAL 1.51.1)
    message(STATUS "gRPC 1.51.1 was not found: the plug-in for it is not built")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/grpc_endpoint/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(ferry_grpc_objects OBJECT ${sources})
  target_link_libraries(ferry_grpc_objects PUBLIC tensorferry)
  target_compile_options(ferry_grpc_objects PRIVATE -UNDEBUG -Wno-unused-parameter -Wno-address)
  add_library(ferry_grpc SHARED $<TARGET_OBJECTS:ferry_grpc_objects>)
  target_link_libraries(ferry_grpc PRIVATE tensorferry ${FERRY_PRIVATE_LIBRARIES} absl::status absl::strings
    ${CMAKE_DL_LIBS})
  target_link_options(ferry_grpc PRIVATE -Wl,-z,lazy -Wl,--exclude-libs,ALL
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/ferry/interop/grpc_endpoint/exports.map)
  set_target_properties(ferry_grpc PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/interop/grpc_endpoint/exports.map)
  # To be linked whole (--whole-archive), since nothing of it is named.
  add_library(ferry_grpc_static STATIC $<TARGET_OBJECTS:ferry_grpc_objects>)
  target_link_libraries(ferry_grpc_static PUBLIC tensorferry ${FERRY_PRIVATE_LIBRARIES} absl::status absl::strings
    ${CMAKE_DL_LIBS})
  set_target_properties(ferry_grpc_static PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    OUTPUT_NAME ferry_grpc)
  ferry_public(ferry_grpc_static grpc_endpoint)
  install(TARGETS ferry_grpc DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT plugin)
endfunction()

function(ferry_job_library)
  ferry_room_files(sources .cc ${FERRY_JOB_ROOMS})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  add_library(tensorferry_job STATIC ${sources})
  ferry_public(tensorferry_job job ${FERRY_JOB_ROOMS})
  target_link_libraries(tensorferry_job PUBLIC tensorferry_train PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  if(TARGET tensorferry_grpc)
    target_link_libraries(tensorferry_job PRIVATE tensorferry_grpc)
    target_compile_definitions(tensorferry_job PUBLIC FERRY_HAS_GRPC)
  endif()
endfunction()

# Target ferry_train_bench: every x_bench.cc, on Google Benchmark. Built when it is asked for.
function(ferry_train_benchmarks)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    return()
  endif()
  ferry_room_files(sources _bench.cc ${FERRY_MATH_ROOMS} ${FERRY_TRAIN_ROOMS})
  add_executable(ferry_train_bench EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(ferry_train_bench PRIVATE tensorferry_train dnnl benchmark::benchmark_main)
endfunction()

# Target check_headers: every header compiles alone, and twice in one file. One that its own x.cc includes
# first is left out: the library's build has shown it.
function(ferry_check_headers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/ferry/*.h
    ${PROJECT_SOURCE_DIR}/bench/*.h)
  set(sources)
  foreach(header ${headers})
    string(REGEX REPLACE "(_internal)?\\.h$" ".cc" own ${PROJECT_SOURCE_DIR}/${header})
    set(first)
    if(EXISTS ${own})
      file(STRINGS ${own} first REGEX "^#include" LIMIT_COUNT 1)
    endif()
    if(first STREQUAL "#include \"${header}\"")
      continue()
    endif()
    set(source ${CMAKE_BINARY_DIR}/check_headers/${header}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(check_headers PRIVATE tensorferry tensorferry_pslite ${FERRY_PRIVATE_LIBRARIES}
    nlohmann_json::nlohmann_json CLI11::CLI11)
  # gRPC's layouts are those of a build without NDEBUG.
  target_compile_options(check_headers PRIVATE -O0 -g0 -UNDEBUG)
  set_target_properties(check_headers PROPERTIES UNITY_BUILD OFF)
endfunction()

# Target fuzzers: one libFuzzer program for each x_fuzz.cc.
function(ferry_fuzzers)
  ferry_room_files(sources _fuzz.cc ${FERRY_LIBRARY_ROOMS} ${FERRY_MATH_ROOMS} ${FERRY_TRAIN_ROOMS})
  add_custom_target(fuzzers)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE tensorferry_train ${FERRY_PRIVATE_LIBRARIES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    add_dependencies(fuzzers ${name})
  endforeach()
endfunction()
