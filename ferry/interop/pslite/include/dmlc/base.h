#pragma once
#pragma GCC system_header  // of others' manner: for #include_next

// What programs written for ps-lite expect of dmlc-core's base.h. Where dmlc-core is among the
// folders of headers, before this one or after it, its own file is what they get.

#if !defined(DMLC_BASE_H_) && __has_include_next(<dmlc/base.h>)
#include_next <dmlc/base.h>
#endif

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// 1: the program logs with glog.
#ifndef DMLC_USE_GLOG
#define DMLC_USE_GLOG 0
#endif
// 1: a failed CHECK, and LOG(FATAL), throw dmlc::Error. 0: they abort.
#ifndef DMLC_LOG_FATAL_THROW
#define DMLC_LOG_FATAL_THROW 1
#endif
#ifndef DMLC_USE_CXX11
#define DMLC_USE_CXX11 1
#endif
#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(T) \
  T(const T&) = delete;             \
  T(T&&) = delete;                  \
  T& operator=(const T&) = delete;  \
  T& operator=(T&&) = delete
#endif
