# One library from all rooms. A room is a folder below ferry/; its *.cc files are picked up by name:
# x.cc belongs to the library, x_test.cc to the unit tests, x_fuzz.cc to the fuzz targets.

set(FERRY_LIBRARY_ROOMS base bootstrap memory fabric)

function(ferry_room_files out suffix)
  set(files)
  foreach(room ${FERRY_LIBRARY_ROOMS})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ferry/${room}/*${suffix})
    list(APPEND files ${found})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

function(ferry_library)
  ferry_room_files(sources .cc)
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  add_library(tensorferry STATIC ${sources})
  add_library(Tensorferry::tensorferry ALIAS tensorferry)
  target_compile_features(tensorferry PUBLIC cxx_std_20)
  target_include_directories(tensorferry PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_compile_definitions(tensorferry PUBLIC FMT_SHARED SPDLOG_SHARED_LIB SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
  target_link_libraries(tensorferry PUBLIC fmt::fmt spdlog::spdlog tl::expected Threads::Threads
    PRIVATE OpenSSL::Crypto PkgConfig::URING PkgConfig::VERBS nlohmann_json::nlohmann_json)
endfunction()
