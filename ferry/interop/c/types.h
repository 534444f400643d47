#pragma once

// Errors, text, and plain data of the C interface. See tensorferry.h for what holds for all of it.

#include <stddef.h>
#include <stdint.h>

#define FERRY_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ferry_error ferry_error;

// Numerically google.rpc.Code.
enum {
  FERRY_OK = 0,
  FERRY_CANCELLED = 1,
  FERRY_UNKNOWN = 2,
  FERRY_INVALID_ARGUMENT = 3,
  FERRY_DEADLINE_EXCEEDED = 4,
  FERRY_NOT_FOUND = 5,
  FERRY_ALREADY_EXISTS = 6,
  FERRY_PERMISSION_DENIED = 7,
  FERRY_RESOURCE_EXHAUSTED = 8,
  FERRY_FAILED_PRECONDITION = 9,
  FERRY_ABORTED = 10,
  FERRY_OUT_OF_RANGE = 11,
  FERRY_UNIMPLEMENTED = 12,
  FERRY_INTERNAL = 13,
  FERRY_UNAVAILABLE = 14,
  FERRY_DATA_LOSS = 15,
  FERRY_UNAUTHENTICATED = 16
};

FERRY_API int32_t ferry_error_code(const ferry_error* error);  // of null: FERRY_OK
// What was tried, on what, and what to do about it.
FERRY_API const char* ferry_error_message(const ferry_error* error);
FERRY_API int32_t ferry_error_os_code(const ferry_error* error);  // errno, or 0
FERRY_API void ferry_error_free(ferry_error* error);
FERRY_API const char* ferry_code_name(int32_t code);  // "DEADLINE_EXCEEDED"

FERRY_API const char* ferry_version(void);
// Text whose length is not known before, mostly JSON.
typedef struct ferry_text ferry_text;
FERRY_API const char* ferry_text_data(const ferry_text* text);
FERRY_API size_t ferry_text_size(const ferry_text* text);
FERRY_API void ferry_text_free(ferry_text* text);

enum { FERRY_READ = 1, FERRY_WRITE = 2, FERRY_ATOMIC = 4, FERRY_ALL = 7 };  // rights

enum {  // element types
  FERRY_F16 = 1,
  FERRY_BF16 = 2,
  FERRY_F32 = 3,
  FERRY_F64 = 4,
  FERRY_I8 = 5,
  FERRY_I16 = 6,
  FERRY_I32 = 7,
  FERRY_I64 = 8,
  FERRY_U8 = 9,
  FERRY_BOOL = 10
};

// Element type and shape, outermost dimension first; -1 is a dimension that is not known.
typedef struct ferry_spec {
  uint8_t type;
  uint8_t rank;
  uint8_t reserved[6];
  int64_t dims[8];
} ferry_spec;

// Elements in memory that somebody else owns, row by row without gaps.
typedef struct ferry_tensor {
  ferry_spec spec;
  void* data;
  uint64_t bytes;
} ferry_tensor;

// A grant on a region of another process; plain data, safe to hand on by any way.
typedef struct ferry_remote {
  uint64_t key;
  uint64_t address;
  uint64_t length;
  uint32_t epoch;
  uint32_t rights;
} ferry_remote;

// Where the slots of an edge are; plain data.
typedef struct ferry_ticket {
  uint8_t bytes[160];
} ferry_ticket;

FERRY_API ferry_error* ferry_ticket_spec(const ferry_ticket* ticket, ferry_spec* spec);

// How a wait behaves.
enum { FERRY_ADAPTIVE = 0, FERRY_SPIN = 1, FERRY_SLEEP = 2 };

#ifdef __cplusplus
}
#endif
