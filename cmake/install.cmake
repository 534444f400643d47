# cmake --install: headers and library (ferry/cli adds the program `ferry`), and the files by which CMake
# (find_package(Tensorferry)) and pkg-config (tensorferry) find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tensorferry)
install(TARGETS tensorferry EXPORT TensorferryTargets COMPONENT library FILE_SET HEADERS COMPONENT library)
install(EXPORT TensorferryTargets NAMESPACE Tensorferry:: DESTINATION ${config_dir} COMPONENT library)

configure_package_config_file(cmake/TensorferryConfig.cmake.in ${CMAKE_BINARY_DIR}/TensorferryConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TensorferryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TensorferryConfig.cmake ${CMAKE_BINARY_DIR}/TensorferryConfigVersion.cmake
  DESTINATION ${config_dir} COMPONENT library)

# The .pc file says where it is relative to itself, so that an installed copy may be moved.
file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/tensorferry.pc.in ${CMAKE_BINARY_DIR}/tensorferry.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tensorferry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
