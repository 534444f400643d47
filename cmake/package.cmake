# cpack -G DEB: Debian packages of an installed copy. What was built decides what is in them.
#
#   tensorferry          the programs `ferry` and ferry-mount
#   tensorferry-bench    what `ferry bench` runs: the limits and the peers
#   tensorferry-grpc     the plug-in for programs that use gRPC
#   libtensorferry-dev   static libraries, headers, and the files by which CMake and pkg-config find them

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tensorferry)
set(CPACK_PACKAGE_CONTACT "The authors of Tensorferry <tensorferry@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library)
if(FERRY_BENCH)
  list(APPEND CPACK_COMPONENTS_ALL bench)
endif()
if(TARGET ferry_grpc)
  list(APPEND CPACK_COMPONENTS_ALL plugin)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tensorferry)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Moves tensors between processes and machines: the program ferry")
# `ferry mount` calls fusermount3; `ferry grpc` preloads the plug-in; `ferry bench` runs the others.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "fuse3, tensorferry-grpc, tensorferry-bench")
# It finds libibverbs when it runs, so that nobody sees it in what it links to.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libibverbs1)
set(CPACK_DEBIAN_BENCH_PACKAGE_NAME tensorferry-bench)
set(CPACK_DEBIAN_BENCH_DESCRIPTION "Moves tensors between processes and machines: what benchmarks compare with")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_NAME tensorferry-grpc)
set(CPACK_DEBIAN_PLUGIN_DESCRIPTION "Moves tensors between processes and machines: the plug-in for gRPC")
# The libraries are static: whoever links them needs what they use.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtensorferry-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "Moves tensors between processes and machines: libraries and headers")
set(needs libexpected-dev libfmt-dev libspdlog-dev libssl-dev libibverbs-dev zlib1g-dev libdnnl-dev)
if(TARGET tensorferry_grpc)
  list(APPEND needs libgrpc++-dev)
endif()
list(JOIN needs ", " CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS OFF)
include(CPack)
