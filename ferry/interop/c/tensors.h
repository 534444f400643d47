#pragma once

// Tensors from one process to another in C. See tensorferry.h for what holds for all of it.

#include "ferry/interop/c/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ferry_receiver ferry_receiver;
typedef struct ferry_sender ferry_sender;
typedef struct ferry_arrival ferry_arrival;

enum { FERRY_STATIC = 1, FERRY_DYNAMIC = 2, FERRY_SHARED = 3 };  // protocols

typedef struct ferry_receiver_options {
  uint64_t size;
  int32_t protocol;  // FERRY_STATIC: one shape for ever; FERRY_DYNAMIC: any that the spec admits
  uint32_t slots;    // tensors that may be under way or in use at once; 0: 2
  int32_t copies;    // dynamic: 1: large tensors are read, not used in the sender's memory
  int32_t spins;     // 1: a promise to wait with FERRY_SPIN only
  uint64_t pad;      // dynamic: tensors up to this travel with their metadata
  uint64_t most_pad;
} ferry_receiver_options;

FERRY_API ferry_error* ferry_receiver_open(ferry_channel* channel, const ferry_spec* spec,
                                           const ferry_receiver_options* options,
                                           ferry_receiver** receiver);
FERRY_API void ferry_receiver_free(ferry_receiver* receiver);
// For one sender.
FERRY_API ferry_error* ferry_receiver_ticket(const ferry_receiver* receiver, ferry_ticket* ticket);
// The next tensor. FERRY_RESOURCE_EXHAUSTED at once if arrivals that were not freed hold all slots.
FERRY_API ferry_error* ferry_receiver_receive(ferry_receiver* receiver, int64_t timeout_ns,
                                              int mode, ferry_arrival** arrival);
// Arrivals that were not freed, and how many there may be.
FERRY_API uint32_t ferry_receiver_held(const ferry_receiver* receiver);
FERRY_API uint32_t ferry_receiver_slots(const ferry_receiver* receiver);
FERRY_API ferry_error* ferry_receiver_describe(ferry_receiver* receiver, ferry_text** text);

FERRY_API void ferry_arrival_tensor(const ferry_arrival* arrival, ferry_tensor* tensor);
FERRY_API uint64_t ferry_arrival_sequence(const ferry_arrival* arrival);  // from 1
// Gives the memory back. Any thread may. The error is that of a peer that is gone: what was read in
// place must not be trusted then. ferry_arrival_free() is still to be called.
FERRY_API ferry_error* ferry_arrival_release(ferry_arrival* arrival);
FERRY_API void ferry_arrival_free(ferry_arrival* arrival);

typedef struct ferry_sender_options {
  uint64_t size;
  int32_t private_memory;  // 1: never produce in the receiver's memory
} ferry_sender_options;

// The ticket says whether it is static or dynamic, and for which tensors.
FERRY_API ferry_error* ferry_sender_open(ferry_channel* channel, const ferry_ticket* ticket,
                                         const ferry_sender_options* options,
                                         ferry_sender** sender);
FERRY_API void ferry_sender_free(ferry_sender* sender);
// Where the next tensor is best produced. `spec` is for dynamic ones, and null for static ones.
FERRY_API ferry_error* ferry_sender_output(ferry_sender* sender, const ferry_spec* spec,
                                           ferry_tensor* tensor, int* in_place);
// Sends what output() gave, or any tensor that the edge admits. Returns when the memory may be used
// again. FERRY_DEADLINE_EXCEEDED: the receiver holds all slots; nothing was sent.
FERRY_API ferry_error* ferry_sender_send(ferry_sender* sender, const ferry_tensor* tensor,
                                         int64_t timeout_ns);
// The same in steps, for waits that must be left now and then. `started` 0: no slot is free. Once
// started, the memory is the edge's until finished() says 1, and no other call is allowed.
FERRY_API ferry_error* ferry_sender_start(ferry_sender* sender, const ferry_tensor* tensor,
                                          int* started);
FERRY_API ferry_error* ferry_sender_finished(ferry_sender* sender, int* finished);
// Waits until start(), or finished(), might say more. FERRY_DEADLINE_EXCEEDED.
FERRY_API ferry_error* ferry_sender_wait(ferry_sender* sender, int64_t timeout_ns);
// Waits until the receiver has let go of every tensor.
FERRY_API ferry_error* ferry_sender_drain(ferry_sender* sender, int64_t timeout_ns);
FERRY_API ferry_error* ferry_sender_describe(ferry_sender* sender, ferry_text** text);

typedef struct ferry_writer ferry_writer;
typedef struct ferry_reader ferry_reader;

typedef struct ferry_writer_options {
  uint64_t size;
  uint32_t versions;  // 3: the newest, one to write, and one that a slow reader uses
  uint32_t readers;   // 64
} ferry_writer_options;

FERRY_API ferry_error* ferry_writer_open(ferry_device* device, const ferry_spec* spec,
                                         const ferry_writer_options* options,
                                         ferry_writer** writer);
FERRY_API void ferry_writer_free(ferry_writer* writer);
FERRY_API ferry_error* ferry_writer_admit(ferry_writer* writer, ferry_channel* reader,
                                          ferry_ticket* ticket);
// A version that nobody uses: the same until publish().
FERRY_API ferry_error* ferry_writer_output(ferry_writer* writer, int64_t timeout_ns,
                                           ferry_tensor* tensor);
FERRY_API ferry_error* ferry_writer_publish(ferry_writer* writer, uint64_t* version);

FERRY_API ferry_error* ferry_reader_open(ferry_channel* channel, const ferry_ticket* ticket,
                                         ferry_reader** reader);
FERRY_API void ferry_reader_free(ferry_reader* reader);
// The newest version, which is at least number `least`. The sequence of the arrival is its number.
FERRY_API ferry_error* ferry_reader_read(ferry_reader* reader, uint64_t least, int64_t timeout_ns,
                                         ferry_arrival** arrival);
FERRY_API ferry_error* ferry_reader_describe(ferry_reader* reader, ferry_text** text);

#ifdef __cplusplus
}
#endif
