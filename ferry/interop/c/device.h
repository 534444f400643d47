#pragma once

// Devices, regions and channels in C. See tensorferry.h for what holds for all of it.

#include "ferry/interop/c/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ferry_device ferry_device;
typedef struct ferry_region ferry_region;
typedef struct ferry_channel ferry_channel;
typedef struct ferry_transfer ferry_transfer;

typedef struct ferry_device_options {
  uint64_t size;
  const char* provider;  // "auto", "shm", "tcp", "verbs", "fake", or a list
  const char* listen;    // "127.0.0.1:0"
  const char* secret;    // null and no file: only devices of this process are let in
  const char* secret_file;
  uint64_t arena_bytes;
  uint64_t budget_bytes;  // most registered memory; 0: half of the machine's
  int64_t spin_ns;        // of waits, before they sleep
  int64_t operation_ns;   // deadline of operations that name none
  int64_t give_up_ns;     // a silent peer is lost after it
  double patience;        // scales other waits, for slow hosts
  int32_t completion_queues;
  int32_t lanes_per_peer;
  const char* verbs_device;
} ferry_device_options;

// `options` may be null.
FERRY_API ferry_error* ferry_device_open(const ferry_device_options* options,
                                         ferry_device** device);
FERRY_API void ferry_device_free(ferry_device* device);
// Refuses newcomers and ends what is pending with FERRY_CANCELLED. Memory stays until its handles
// are freed.
FERRY_API void ferry_device_close(ferry_device* device);
FERRY_API const char* ferry_device_endpoint(const ferry_device* device);  // "host:port"
FERRY_API const char* ferry_device_id(const ferry_device* device);
// JSON: {"endpoint", "id", "providers": [...], "stats": {...}}.
FERRY_API ferry_error* ferry_device_describe(ferry_device* device, ferry_text** text);

// Zeroed and 64-aligned.
FERRY_API ferry_error* ferry_device_allocate(ferry_device* device, uint64_t bytes, uint32_t rights,
                                             ferry_region** region);
// The caller's memory. It stays mapped until the region is closed or freed, which waits until no
// peer can touch it any more.
FERRY_API ferry_error* ferry_device_register(ferry_device* device, void* data, uint64_t bytes,
                                             uint32_t rights, ferry_region** region);
FERRY_API ferry_error* ferry_device_is_registered(ferry_device* device, const void* data,
                                                  uint64_t bytes, int* registered);
FERRY_API void* ferry_region_data(const ferry_region* region);  // null when it is closed
FERRY_API uint64_t ferry_region_size(const ferry_region* region);
FERRY_API ferry_error* ferry_region_close(ferry_region* region, int64_t timeout_ns);
FERRY_API void ferry_region_free(ferry_region* region);

// Lets peers at the region; `only` may be null, which stands for every peer of the cluster.
FERRY_API ferry_error* ferry_device_grant(ferry_device* device, const ferry_region* region,
                                          uint32_t rights, const ferry_channel* only,
                                          ferry_remote* grant);
FERRY_API ferry_error* ferry_device_revoke(ferry_device* device, const ferry_remote* grant,
                                           int64_t timeout_ns);
// The address book: peers find the grant under this name.
FERRY_API ferry_error* ferry_device_publish(ferry_device* device, const char* name,
                                            const ferry_remote* grant);
FERRY_API ferry_error* ferry_device_withdraw(ferry_device* device, const char* name);

// Waits until the 64-bit word, which a peer writes as a flag, is at least `value`.
FERRY_API ferry_error* ferry_device_wait_flag(ferry_device* device, const void* word,
                                              uint64_t value, int64_t timeout_ns, int mode);

// For programs that sleep in a loop of their own: the descriptor is readable when there is
// something to do. Before a sleep, arm() and look at the condition once more (`armed` 0: look now);
// after it disarm(), and handle_ready() if the descriptor was readable.
FERRY_API ferry_error* ferry_device_descriptor(ferry_device* device, int* descriptor);
FERRY_API ferry_error* ferry_device_arm(ferry_device* device, int* armed);
FERRY_API ferry_error* ferry_device_disarm(ferry_device* device);
FERRY_API ferry_error* ferry_device_handle_ready(ferry_device* device);
FERRY_API ferry_error* ferry_device_progress(ferry_device* device);

typedef struct ferry_connect_options {
  uint64_t size;
  int32_t lane;    // 1 is the first; 0: the next one, round-robin
  int32_t stripe;  // 1: spread large copies over all lanes of the peer
} ferry_connect_options;

FERRY_API ferry_error* ferry_device_connect(ferry_device* device, const char* endpoint,
                                            const ferry_connect_options* options,
                                            int64_t timeout_ns, ferry_channel** channel);
FERRY_API ferry_error* ferry_device_accept(ferry_device* device, int64_t timeout_ns,
                                           ferry_channel** channel);
FERRY_API void ferry_channel_free(ferry_channel* channel);
// Fails what is pending with FERRY_CANCELLED. No other call may be running on the channel.
FERRY_API void ferry_channel_close(ferry_channel* channel);
FERRY_API const char* ferry_channel_provider(const ferry_channel* channel);
FERRY_API const char* ferry_channel_peer(const ferry_channel* channel);  // its endpoint
FERRY_API int ferry_channel_alive(const ferry_channel* channel);
// JSON: {"provider", "why", "peer", "peer_host", "state", "silent_seconds", "capabilities"}.
FERRY_API ferry_error* ferry_channel_describe(ferry_channel* channel, ferry_text** text);

// One-sided copies between local bytes and a peer's region. The local bytes are the library's until
// the transfer has ended. `timeout_ns` 0 is the device's operation_ns.
FERRY_API ferry_error* ferry_channel_write(ferry_channel* channel, const void* data, uint64_t bytes,
                                           const ferry_remote* remote, uint64_t offset,
                                           int64_t timeout_ns, ferry_transfer** transfer);
FERRY_API ferry_error* ferry_channel_read(ferry_channel* channel, void* data, uint64_t bytes,
                                          const ferry_remote* remote, uint64_t offset,
                                          int64_t timeout_ns, ferry_transfer** transfer);
// Writes, then stores `value` to the 64-bit word at `flag_offset` of `flag`: who sees the value
// sees every byte.
FERRY_API ferry_error* ferry_channel_write_flagged(ferry_channel* channel, const void* data,
                                                   uint64_t bytes, const ferry_remote* remote,
                                                   uint64_t offset, const ferry_remote* flag,
                                                   uint64_t flag_offset, uint64_t value,
                                                   int64_t timeout_ns, ferry_transfer** transfer);
// On a 64-bit word of a region that was granted with FERRY_ATOMIC; ferry_transfer_value() is what
// was there before.
FERRY_API ferry_error* ferry_channel_fetch_add(ferry_channel* channel, const ferry_remote* word,
                                               uint64_t offset, uint64_t addend, int64_t timeout_ns,
                                               ferry_transfer** transfer);
FERRY_API ferry_error* ferry_channel_compare_swap(ferry_channel* channel, const ferry_remote* word,
                                                  uint64_t offset, uint64_t expected,
                                                  uint64_t desired, int64_t timeout_ns,
                                                  ferry_transfer** transfer);
// A small message, in order.
FERRY_API ferry_error* ferry_channel_send(ferry_channel* channel, const void* data, uint64_t bytes,
                                          int64_t timeout_ns, ferry_transfer** transfer);
FERRY_API ferry_error* ferry_channel_receive(ferry_channel* channel, void* into, uint64_t room,
                                             int64_t timeout_ns, uint64_t* bytes);
FERRY_API ferry_error* ferry_channel_look_up(ferry_channel* channel, const char* name,
                                             int64_t timeout_ns, ferry_remote* remote);
// The peer's region as memory of this process, as long as the channel; FERRY_UNIMPLEMENTED where
// the path does not map memory.
FERRY_API ferry_error* ferry_channel_map(ferry_channel* channel, const ferry_remote* remote,
                                         void** data, uint64_t* bytes);
// After a flag was stored to such memory: wakes a peer that sleeps until it comes.
FERRY_API ferry_error* ferry_channel_wake_peer(ferry_channel* channel);

// Whether it has ended: 1 or 0. Never waits.
FERRY_API int ferry_transfer_ended(ferry_transfer* transfer);
// FERRY_DEADLINE_EXCEEDED with ferry_transfer_ended() 0: it goes on. Else it has ended like this.
FERRY_API ferry_error* ferry_transfer_wait(ferry_transfer* transfer, int64_t timeout_ns);
// Asks for its end; wait for that.
FERRY_API void ferry_transfer_cancel(ferry_transfer* transfer);
FERRY_API uint64_t ferry_transfer_value(const ferry_transfer* transfer);
// Cancels it and waits for its end, if it has not ended.
FERRY_API void ferry_transfer_free(ferry_transfer* transfer);

#ifdef __cplusplus
}
#endif
