#pragma once

// Messages of any size in C. See tensorferry.h for what holds for all of it.

#include "ferry/interop/c/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ferry_mailbox ferry_mailbox;
typedef struct ferry_message ferry_message;
typedef struct ferry_sending ferry_sending;

typedef struct ferry_part {
  const void* data;
  uint64_t bytes;
} ferry_part;

typedef struct ferry_mailbox_options {
  uint64_t size;
  int32_t tuning;  // 0: measure a path that nothing is known of; 1: what is kept; 2: defaults
  uint32_t slots;
  uint64_t slot_bytes;
  uint64_t eager_threshold;
  uint64_t most_bytes;
  uint64_t send_bytes;
} ferry_mailbox_options;

// Both ends call it. `tuning` is that of the first mailbox of the device. Sends and receives may be
// on different threads.
FERRY_API ferry_error* ferry_mailbox_open(ferry_channel* channel,
                                          const ferry_mailbox_options* options, int64_t timeout_ns,
                                          ferry_mailbox** mailbox);
FERRY_API void ferry_mailbox_free(ferry_mailbox* mailbox);
// Sends parts as one message. They are the library's until the sending has ended.
FERRY_API ferry_error* ferry_mailbox_send(ferry_mailbox* mailbox, const ferry_part* parts,
                                          size_t count, int64_t timeout_ns,
                                          ferry_sending** sending);
// As ferry_transfer_wait().
FERRY_API ferry_error* ferry_sending_wait(ferry_sending* sending, int64_t timeout_ns);
FERRY_API int ferry_sending_ended(ferry_sending* sending);
// Waits for its end, if it has not ended.
FERRY_API void ferry_sending_free(ferry_sending* sending);
FERRY_API ferry_error* ferry_mailbox_drain(ferry_mailbox* mailbox, int64_t timeout_ns);
FERRY_API ferry_error* ferry_mailbox_receive(ferry_mailbox* mailbox, int64_t timeout_ns,
                                             ferry_message** message);
FERRY_API size_t ferry_message_parts(const ferry_message* message);
FERRY_API ferry_part ferry_message_part(const ferry_message* message, size_t index);
FERRY_API void ferry_message_free(ferry_message* message);
// JSON: {"stats": {...}, "tuning": {...}}.
FERRY_API ferry_error* ferry_mailbox_describe(ferry_mailbox* mailbox, ferry_text** text);

#ifdef __cplusplus
}
#endif
