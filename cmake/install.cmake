# cmake --install: headers and libraries (ferry/cli adds the program `ferry`), and the files by which CMake
# (find_package(Tensorferry COMPONENTS ps train ...)) and pkg-config (tensorferry, tensorferry-ps, ...) find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tensorferry)
get_property(libraries GLOBAL PROPERTY FERRY_PUBLIC_TARGETS)
# Without the link libtensorferry.so, which -ltensorferry would take for the static library of C++.
install(TARGETS ${libraries} EXPORT TensorferryTargets COMPONENT library LIBRARY COMPONENT library NAMELINK_SKIP
  FILE_SET HEADERS COMPONENT library)
install(EXPORT TensorferryTargets NAMESPACE Tensorferry:: DESTINATION ${config_dir} COMPONENT library)
# A folder of their own: ps-lite's and dmlc-core's files have the same names.
install(DIRECTORY ferry/interop/pslite/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${FERRY_PSLITE_FOLDER}
  COMPONENT library)

set(has_grpc OFF)
if(TARGET tensorferry_grpc)
  set(has_grpc ON)
endif()
configure_package_config_file(cmake/TensorferryConfig.cmake.in ${CMAKE_BINARY_DIR}/TensorferryConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TensorferryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TensorferryConfig.cmake ${CMAKE_BINARY_DIR}/TensorferryConfigVersion.cmake
  DESTINATION ${config_dir} COMPONENT library)

# The .pc files say where they are relative to themselves, so that an installed copy may be moved.
file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
# ferry_pkg_config(NAME DESCRIPTION REQUIRES LIBRARIES [FLAGS])
function(ferry_pkg_config name description requires libraries)
  string(JOIN " " flags ${ARGN})
  configure_file(cmake/tensorferry.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endfunction()
ferry_pkg_config(tensorferry "${PROJECT_DESCRIPTION}" "fmt spdlog libcrypto libibverbs" "-ltensorferry -pthread")
ferry_pkg_config(tensorferry-c "The C interface of Tensorferry" "" "-l:libtensorferry.so.0")
ferry_pkg_config(tensorferry-ps "The parameter server of Tensorferry" "tensorferry zlib"
  "-ltensorferry_ps -ltensorferry_math")
ferry_pkg_config(tensorferry-kvstore "A key-value store on the parameter server of Tensorferry" "tensorferry-ps"
  "-ltensorferry_kvstore")
ferry_pkg_config(tensorferry-pslite "ps-lite's interface to the parameter server of Tensorferry" "tensorferry-ps"
  "-ltensorferry_pslite" "-I\${includedir}/${FERRY_PSLITE_FOLDER}")
ferry_pkg_config(tensorferry-train "Graphs and kernels of Tensorferry" "tensorferry zlib"
  "-ltensorferry_train -ltensorferry_math -ldnnl -lgomp")
set(job_requires tensorferry-train)
set(job_libraries -ltensorferry_job)
if(TARGET tensorferry_grpc)
  string(APPEND job_requires " grpc++")
  string(APPEND job_libraries " -ltensorferry_grpc")
endif()
if(TARGET ferry_grpc_static)
  string(APPEND job_requires " absl_status absl_strings")
  string(APPEND job_libraries " -Wl,--whole-archive,-l:libferry_grpc.a,--no-whole-archive")
endif()
if(TARGET tensorferry_grpc_tensor)
  install(FILES ferry/interop/grpc_tensor/tensor.proto COMPONENT library
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ferry/interop/grpc_tensor)
  ferry_pkg_config(tensorferry-grpc-tensor "Tensors as messages of gRPC's, without copies" "tensorferry grpc++"
    "-ltensorferry_grpc_tensor")
endif()
ferry_pkg_config(tensorferry-job "Training by several processes with Tensorferry" "${job_requires}" "${job_libraries}")
